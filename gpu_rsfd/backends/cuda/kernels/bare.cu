// The tape alone: the words that a kernel of unary encodings compares, and nothing done with them.  Its speed is what
// the others' is measured against.
#include "tape.cuh"

extern "C" __global__ void bare_tape(Key key, u64 columns, u32 groups, u64* sums_groups) {
  for (u32 group = blockIdx.x * blockDim.x + threadIdx.x; group < groups; group += gridDim.x * blockDim.x) {
    u64 sum = 0;
#pragma unroll 1
    for (u64 column = 0; column < columns; column++)
#pragma unroll 1
      for (int block = 0; block < LEVELS / 4; block++) {
        const Words words = tape(key.rounds, BITS, column, 0, (u64)group * (LEVELS / 4) + block);
        sum ^= words.w[0] ^ words.w[1] ^ words.w[2] ^ words.w[3];
      }
    sums_groups[group] = sum;
  }
}
