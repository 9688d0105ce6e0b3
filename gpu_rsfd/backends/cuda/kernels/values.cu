// The VALUE stream: counts of GRR and of message sets at every threshold, and the values that RS+FD with random vectors
// encodes.  One thread per group of 64 users; one repetition and one tile of the groups a block.
#include "planes.cuh"

// Counts [row, message], in the block's shared memory if they fit there, else where they end up.
struct Bins {
  u32* shared;
  u64* global;
  u32 messages;
  u32 stride;  // from a row to the next in global memory

  __device__ __forceinline__ void add(u32 row, u32 message, int change) const {
    if (shared) atomicAdd(&shared[row * messages + message], (u32)change);
    else atomicAdd(&global[(u64)row * stride + message], (u64)(long long)change);
  }
};

// What a user sends who keeps: the value itself if it has no set, else a member of its set of `size` messages, from a
// table or, without one, of Hadamard's.
__device__ __forceinline__ u32 member(const u32* table_k_size, u32 size, u32 value, u64 word) {
  if (!size) return value;
  const u32 i = scale(word, size);
  if (table_k_size) return table_k_size[(u64)value * size + i];
  const u32 row = value + 1, pivot = row & (0u - row), low = i & (pivot - 1), message = (i ^ low) << 1 | low;
  return message | (__popc(message & row) & 1) * pivot;
}

// The rows: what is sent if nobody keeps (y of those who sampled the attribute, a fake of the others: y, too, unless a
// prior has thresholds of its own); y of those who sampled the attribute; then, for each keep threshold, what changes
// when it is reached from the one below: a user who keeps moves from y to x.  First the thresholds for those who
// sampled the attribute, then those for everyone (no sampling, and no prior); each kind ascending.  y is a uniform one
// of all messages: these are the k values, unless `size` is not 0.
extern "C" __global__ void count_values(
    Key key, u64 first_repetition, u64 repetition_step, u32 columns, u64 first_group, u32 groups, u64 last_lanes,
    u32 tile, u32 attribute, u32 attribute_digits, u32 k, u32 digits, u32 messages, u32 size, u32 rows, u32 own_keeps,
    u32 all_keeps, u32 use_shared, const u32* table_k_size, const u64* fake_thresholds_k, const u64* keeps,
    const u64* x_digits_groups, const u64* sampled_repetitions_digits_groups, u64* encoded_repetitions_digits_groups,
    u64* bins_rows_repetitions_messages) {
  DYNAMIC_SHARED(u32, shared_bins);
  const u32 tiles = (groups + tile - 1) / tile, row = blockIdx.x / tiles, start = blockIdx.x % tiles * tile;
  const u32 stop = groups - start < tile ? groups : start + tile, cells = rows * messages;
  const u64 repetition = first_repetition + row * repetition_step;
  const Bins bins = {use_shared ? shared_bins : nullptr, bins_rows_repetitions_messages + (u64)row * messages, messages,
                     columns};
  if (use_shared)
    for (u32 i = threadIdx.x; i < cells; i += blockDim.x) shared_bins[i] = 0;
  __syncthreads();
  for (u32 group = start + threadIdx.x; group < stop; group += blockDim.x) {
    const u64 all = group + 1 < groups ? ~0ull : last_lanes;
    const u64 mine = all & match(sampled_repetitions_digits_groups + (u64)row * attribute_digits * groups + group,
                                 attribute_digits, groups, attribute);
    auto tally = [&](u32 lane, u32 y, u32 fake, u64 word) {
      const u64 h = word & 0xFFFFFFFFull;
      if (!rows || !(all >> lane & 1)) return;
      const bool own = mine >> lane & 1;
      bins.add(0, own ? y : fake, 1);
      if (own) bins.add(1, y, 1);
      u32 x = messages;  // what is sent if it is kept: not yet known
#pragma unroll 1
      for (u32 kind = 0; kind < 2; kind++) {
        const u32 first = kind ? own_keeps : 0, last = kind ? own_keeps + all_keeps : own_keeps;
        if ((kind || own) && first < last && h < keeps[last - 1]) {
          u32 step = first;
#pragma unroll 1
          while (h >= keeps[step]) step++;
          if (x == messages) {
            u32 value = 0;
#pragma unroll 1
            for (u32 b = 0; b < digits; b++) value |= (u32)(x_digits_groups[(u64)b * groups + group] >> lane & 1) << b;
            x = member(table_k_size, size, value, word);
          }
          bins.add(2 + step, x, 1);
          bins.add(2 + step, y, -1);
        }
      }
    };
    with_digits(digits, [&](auto planes) {
      planes = collect<planes.SIZE>([&](u32 lane) {
        const u64 block = (first_group + group) * (LANES / 4) + lane / 4;
        const Words words = tape(key.rounds, VALUE, attribute, repetition, block);
        Codes fakes;
#pragma unroll
        for (int i = 0; i < 4; i++) {
          const u32 y = scale(words.w[i], messages);
          fakes.c[i] = fake_thresholds_k ? thresholds_reached(fake_thresholds_k, k - 1, words.w[i] >> 32) : y;
          tally(lane + i, y, fakes.c[i], words.w[i]);
        }
        return fakes;
      });
      if (encoded_repetitions_digits_groups)
#pragma unroll
        for (int b = 0; b < planes.SIZE; b++)
          if (b < digits) {
            const u64 x = x_digits_groups[(u64)b * groups + group], y = planes.word[b];
            encoded_repetitions_digits_groups[((u64)row * digits + b) * groups + group] = y ^ ((x ^ y) & mine);
          }
    });
  }
  __syncthreads();
  if (use_shared)
    for (u32 i = threadIdx.x; i < cells; i += blockDim.x)
      if (shared_bins[i])
        atomicAdd(&bins.global[(u64)(i / messages) * bins.stride + i % messages], (u64)(long long)(int)shared_bins[i]);
}
