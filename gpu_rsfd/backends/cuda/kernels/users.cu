// What the users hold and what they sample, as binary digits of 64 users a word.
#include "planes.cuh"

// The codes of a data set in memory.
extern "C" __global__ void pack_codes(const u16* codes_users, u64 users, u32 groups, u32 digits,
                                      u64* planes_digits_groups) {
  for (u64 group = (u64)blockIdx.x * blockDim.x + threadIdx.x; group < groups; group += (u64)gridDim.x * blockDim.x)
    with_digits(digits, [&](auto planes) {
      planes = collect<planes.SIZE>([&](u32 lane) {
        Codes codes = {};
#pragma unroll
        for (int i = 0; i < 4; i++)
          if (group * LANES + lane + i < users) codes.c[i] = codes_users[group * LANES + lane + i];
        return codes;
      });
      store(planes, digits, groups, planes_digits_groups + group);
    });
}

// Synthetic values: uniform, or by k - 1 thresholds on the high half of the word.
extern "C" __global__ void draw_codes(Key key, u32 attribute, u64 first_group, u32 groups, u32 k, u32 digits,
                                      const u64* thresholds_k, u64* planes_digits_groups) {
  for (u64 group = (u64)blockIdx.x * blockDim.x + threadIdx.x; group < groups; group += (u64)gridDim.x * blockDim.x)
    with_digits(digits, [&](auto planes) {
      planes = collect<planes.SIZE>([&](u32 lane) {
        const Words words = tape(key.rounds, DATA, attribute, 0, (first_group + group) * (LANES / 4) + lane / 4);
        Codes codes;
#pragma unroll
        for (int i = 0; i < 4; i++)
          codes.c[i] = thresholds_k ? thresholds_reached(thresholds_k, k - 1, words.w[i] >> 32) : scale(words.w[i], k);
        return codes;
      });
      store(planes, digits, groups, planes_digits_groups + group);
    });
}

// A random permutation of 0 .. n - 1, one position at a time: a Feistel network on `bits` digits, walked along its
// cycle until it falls below n, then rotated.
struct Permutation {
  u64 keys[BALANCE_ROUNDS], shift, n;
  u32 bits;

  __device__ __forceinline__ Permutation(const Key& key, u64 repetition, u64 users, u32 digits)
      : n(users), bits(digits) {
    const Words a = tape(key.rounds, BALANCE, 0, repetition, 0), b = tape(key.rounds, BALANCE, 0, repetition, 1),
                c = tape(key.rounds, BALANCE, 0, repetition, 2);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      keys[i] = a.w[i];
      keys[4 + i] = b.w[i];
    }
    shift = n <= 1ull << 32 ? ((c.w[0] >> 32) * n) >> 32 : c.w[0] % n;
  }

  static __device__ __forceinline__ u64 mix(u64 x, u64 key) {
    u64 z = (x ^ key) * 0xBF58476D1CE4E5B9ull;
    z ^= z >> 32;
    return z * 0x94D049BB133111EBull >> 37;
  }

  __device__ __forceinline__ u64 position(u64 x) const {
    const u32 low = bits / 2;
    const u64 low_mask = (1ull << low) - 1, high_mask = (1ull << (bits - low)) - 1;
    do {
      u64 left = x >> low, right = x & low_mask;
#pragma unroll
      for (int i = 0; i < BALANCE_ROUNDS; i += 2) {
        left ^= mix(right, keys[i]) & high_mask;
        right ^= mix(left, keys[i + 1]) & low_mask;
      }
      x = left << low | right;
    } while (x >= n);
    x += shift;
    return x >= n ? x - n : x;
  }
};

// The sampled attribute of each user in each repetition; permutation_bits is 0 for uniform assignment.
extern "C" __global__ void assign(Key key, u64 first_repetition, u64 repetition_step, u32 repetitions, u64 n,
                                  u32 permutation_bits, u64 first_group, u32 groups, u32 d, u32 digits,
                                  u64* sampled_repetitions_digits_groups) {
  const u64 items = (u64)repetitions * groups, step = (u64)gridDim.x * blockDim.x;
  for (u64 item = (u64)blockIdx.x * blockDim.x + threadIdx.x; item < items; item += step) {
    const u32 row = item / groups, group = item % groups;
    const u64 repetition = first_repetition + row * repetition_step;
    u64* out = sampled_repetitions_digits_groups + (u64)row * digits * groups + group;
    with_digits(digits, [&](auto planes) {
      if (permutation_bits) {
        const Permutation permutation(key, repetition, n, permutation_bits);
        planes = collect<planes.SIZE>([&](u32 lane) {
          Codes codes = {};
#pragma unroll 1
          for (int i = 0; i < 4; i++) {
            const u64 user = (first_group + group) * LANES + lane + i;
            const u32 code = user < n ? permutation.position(user) % d : 0;  // beyond n the walk might not end
            codes.c[0] = codes.c[1];
            codes.c[1] = codes.c[2];
            codes.c[2] = codes.c[3];
            codes.c[3] = code;
          }
          return codes;
        });
      } else {
        planes = collect<planes.SIZE>([&](u32 lane) {
          const Words w = tape(key.rounds, ASSIGN, 0, repetition, (first_group + group) * (LANES / 4) + lane / 4);
          return Codes{{scale(w.w[0], d), scale(w.w[1], d), scale(w.w[2], d), scale(w.w[3], d)}};
        });
      }
      store(planes, digits, groups, out);
    });
  }
}

// How many users sampled each attribute: one (repetition, attribute) a block.
extern "C" __global__ void count_sampled(u32 groups, u64 last_lanes, u32 d, u32 digits,
                                         const u64* sampled_repetitions_digits_groups, u64* counts_repetitions_d) {
  __shared__ u64 total;
  const u32 row = blockIdx.x / d, attribute = blockIdx.x % d;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  u64 sum = 0;
  for (u32 group = threadIdx.x; group < groups; group += blockDim.x)
    sum += __popcll(match(sampled_repetitions_digits_groups + (u64)row * digits * groups + group, digits, groups,
                          attribute) & (group + 1 < groups ? ~0ull : last_lanes));
  atomicAdd(&total, sum);
  __syncthreads();
  if (threadIdx.x == 0) counts_repetitions_d[blockIdx.x] = total;
}
