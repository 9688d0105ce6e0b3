// The tape on the device: NumPy's Philox4x64-10 and the streams of gpu_rsfd/tape.py, stream version 1.
// A portable subset of CUDA C++: no #include of system headers, so that NVRTC, nvcc and a CPU compiler all take it.
#pragma once

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#ifndef DYNAMIC_SHARED  // a CPU run has its own
#define DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#endif

enum Stream { DATA, ASSIGN, VALUE, BITS, BALANCE };  // second half of the Philox key
enum { LEVELS = 24, LANES = 64, BALANCE_ROUNDS = 8 };

struct Words {
  u64 w[4];
};

struct Key {
  u64 rounds[10];  // the first half of the Philox key, round by round
};

// The 128-bit product of two words.
__device__ __forceinline__ void multiply(u64 a, u64 b, u64& high, u64& low) {
  const unsigned __int128 product = (unsigned __int128)a * b;
  low = (u64)product;
  high = (u64)(product >> 64);
}

// Words 4 * block .. 4 * block + 3 of a column.  NumPy counts up before it draws, hence block + 1.  The first half of
// the key comes round by round, so that a kernel can keep it in constant memory.
__device__ __forceinline__ Words tape(const u64* key_rounds, u64 stream, u64 column, u64 repetition, u64 block) {
  u64 c0 = block + 1, c1 = column, c2 = repetition, c3 = 0;
#pragma unroll
  for (int round = 0; round < 10; round++) {
    u64 high0, low0, high1, low1;
    multiply(0xD2E7470EE14C6C93ull, c0, high0, low0);
    multiply(0xCA5A826395121157ull, c2, high1, low1);
    c0 = high1 ^ c1 ^ key_rounds[round];
    c1 = low1;
    c2 = high0 ^ c3 ^ (stream + round * 0xBB67AE8584CAA73Bull);
    c3 = low0;
  }
  return {{c0, c1, c2, c3}};
}

// A uniform value in 0 .. k - 1 from the high half of a word.
__device__ __forceinline__ u32 scale(u64 word, u32 k) { return (u32)(((word >> 32) * k) >> 32); }

// How many of `count` ascending thresholds are <= draw.
__device__ __forceinline__ u32 thresholds_reached(const u64* thresholds, u32 count, u64 draw) {
  u32 low = 0, high = count;
  while (low < high) {
    const u32 middle = (low + high) / 2;
    if (thresholds[middle] <= draw) low = middle + 1;
    else high = middle;
  }
  return low;
}
