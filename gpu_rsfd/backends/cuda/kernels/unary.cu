// Counts of unary encodings: one thread per group of 64 users; one repetition, one column (attribute, value) and one
// tile of the groups a block.  Every threshold is compared with the same 24 binary digits of U in one pass; the users'
// bit vectors exist only as words in registers.
#include "planes.cuh"

enum { MAX_THRESHOLDS = 18 };  // what fits into 80 registers

// What a pass evaluates.  A slot is a threshold tq, followed by its tp if PAIRED, else tp = 2**23.  Entries are masks,
// 0 or ~0: operands from the constant bank.
struct __align__(16) Pass {
  u64 key_rounds[10];                                       // the first half of the Philox key, round by round
  u32 digit_levels_thresholds[LEVELS][MAX_THRESHOLDS + 2];  // of T - 1, so that T = 2**24 needs no 25th digit
  u32 own_slots[MAX_THRESHOLDS];                            // all users encode x and report
  u32 partial_slots[MAX_THRESHOLDS];                        // only those who sampled it; neither: all report
};

// Any function of three words, bit by bit, as one instruction: logic<A ^ (B & C)>(a, b, c) is a ^ (b & c).  Spelled
// out, since the compiler does not always find it.
enum { A = 0xF0, B = 0xCC, C = 0xAA };
template <int TABLE>
__device__ __forceinline__ u32 logic(u32 a, u32 b, u32 c) {
  u32 result = 0;
#ifdef __CUDA_ARCH__
  asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(result) : "r"(a), "r"(b), "r"(c), "n"(TABLE & 0xFF));
#else
  for (int i = 0; i < 8; i++)
    if (TABLE >> i & 1) result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
#endif
  return result;
}

__device__ __forceinline__ u32 half_of(u64 word, int h) { return (u32)(word >> 32 * h); }

template <int N, bool PAIRED>
__device__ __forceinline__ void count_columns(
    const Pass& pass, u64 first_repetition, u64 repetition_step, u32 columns, u64 first_group, u32 groups,
    u64 last_lanes, u32 tile, u32 attribute, u32 attribute_digits, u64 offset, u32 k, u32 digits, u32 encoded_stride,
    const u64* __restrict__ x_digits_groups, const u64* __restrict__ sampled_repetitions_digits_groups,
    const u64* __restrict__ encoded_repetitions_digits_groups, u64* counts_cells_repetitions_k) {
  constexpr int STEP = PAIRED ? 2 : 1, CELLS = 2 * N / STEP;
  __shared__ u32 ones_slots_2_banks[CELLS * 32], column;
  // Each lane of a warp adds to a bank of its own; the banks are summed up when the tile is done.
  u32* const ones = &ones_slots_2_banks[threadIdx.x % 32];
  const u32 tiles = (groups + tile - 1) / tile;
  const u32 v = blockIdx.x / tiles % k, row = blockIdx.x / tiles / k, start = blockIdx.x % tiles * tile;
  const u32 stop = groups - start < tile ? groups : start + tile;
  const u64 repetition = first_repetition + row * repetition_step;
  for (u32 i = threadIdx.x; i < CELLS * 32; i += blockDim.x) ones_slots_2_banks[i] = 0;
  if (threadIdx.x == 0) column = row * k + v;  // a register less in the loop below
  __syncthreads();
  for (u32 group = start + threadIdx.x; group < stop; group += blockDim.x) {
    u32 above[2][N] = {};  // U >= T, from the lowest digit up: `& w` where the digit of T - 1 is 1, else `| w`
    u64 half = 0;  // U < 2**23: the top digit is 0
#pragma unroll 1
    for (int block = 0; block < LEVELS / 4; block++) {
      Words words = tape(pass.key_rounds, BITS, offset + v, repetition, (first_group + group) * (LEVELS / 4) + block);
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int t = 0; t < N; t++)
#pragma unroll
          for (int h = 0; h < 2; h++)
            above[h][t] = logic<(A & B) | (~C & (A | B))>(above[h][t], half_of(words.w[i], h),
                                                          pass.digit_levels_thresholds[4 * block + i][t]);
      half = ~words.w[3];
    }
    const u64 all = group + 1 < groups ? ~0ull : last_lanes;
    u64 mine = all, x = all, random = all;  // random: who encodes v, be it x or fake
    u32 at = row * attribute_digits * groups + group;
    Digits own(attribute), value(v);
#pragma unroll 1
    for (u32 b = 0; b < attribute_digits; b++, at += groups)
      mine &= sampled_repetitions_digits_groups[at] ^ own.next();
    at = row * encoded_stride + group;
    u32 x_at = group;
#pragma unroll 1
    for (u32 b = 0; b < digits; b++, at += groups, x_at += groups) {
      const u64 digit = value.next();
      x &= x_digits_groups[x_at] ^ digit;
      random &= encoded_repetitions_digits_groups[at] ^ digit;
    }
    // Users who encode v report U < tp, the other reporters U < tq.
    const u64 encode = x & mine, others = all ^ encode, absent = all ^ mine, stray = x & absent;
#pragma unroll
    for (int t = 0; t < N; t += STEP) {
      const u32 own_slot = pass.own_slots[t], partial_slot = pass.partial_slots[t];
      u32 sum = 0, random_sum = 0;
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const u32 at_p = PAIRED ? ~above[h][t + STEP - 1] : half_of(half, h);
        const u32 low = logic<A ^ (B & C)>(logic<A ^ (B & C)>(half_of(others, h), own_slot, half_of(stray, h)),
                                           partial_slot, half_of(absent, h));
        const u32 high = (at_p & half_of(encode, h)) ^ (own_slot & (at_p & half_of(stray, h)));
        sum += __popc(logic<(~A & B) | C>(above[h][t], low, high));
        random_sum += __popc(logic<(~A & B) | C>(above[h][t], half_of(all ^ random, h), at_p & half_of(random, h)));
      }
      atomicAdd(ones + t / STEP * 64, sum);
      atomicAdd(ones + t / STEP * 64 + 32, random_sum);
    }
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < CELLS; i += blockDim.x) {
    u64 sum = 0;
    for (u32 bank = 0; bank < 32; bank++) sum += ones_slots_2_banks[i * 32 + (bank + i) % 32];  // no bank twice
    if (sum) atomicAdd(&counts_cells_repetitions_k[(u64)i * columns + column], sum);
  }
}

// Blocks of 128 threads on a multiprocessor: 6 leave 80 registers a thread.  Where that is too few, 5 leave 96.
#if __CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200
#define PLAIN_BLOCKS 5
#else
#define PLAIN_BLOCKS 6
#endif
#define PAIRED_BLOCKS 5

// A kernel for N thresholds: the host adds a line for each size that it needs.
#define COUNT_UNARY(name, N, PAIRED, BLOCKS)                                                                       \
  extern "C" __global__ void __launch_bounds__(128, BLOCKS) name(                                                  \
      Pass pass, u64 first_repetition, u64 repetition_step, u32 columns, u64 first_group, u32 groups,          \
      u64 last_lanes, u32 tile, u32 attribute, u32 attribute_digits, u64 offset, u32 k, u32 digits,                \
      u32 encoded_stride, const u64* x_digits_groups, const u64* sampled_repetitions_digits_groups,                \
      const u64* encoded_repetitions_digits_groups, u64* counts_cells_repetitions_k) {                             \
    count_columns<N, PAIRED>(pass, first_repetition, repetition_step, columns, first_group, groups,                \
                             last_lanes, tile, attribute, attribute_digits, offset, k, digits, encoded_stride,     \
                             x_digits_groups, sampled_repetitions_digits_groups,                                   \
                             encoded_repetitions_digits_groups, counts_cells_repetitions_k);                       \
  }
