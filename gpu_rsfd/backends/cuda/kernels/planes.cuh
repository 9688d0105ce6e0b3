// Codes of 64 users as binary digits: word b of a group holds digit b of each user's code.
#pragma once
#include "tape.cuh"

struct Codes {
  u32 c[4];  // of four users, whose words are one block of the tape
};

// B or fewer digits of 64 codes, pushed one after another; in registers, since every index is known when compiling.
template <int B>
struct Planes {
  static constexpr int SIZE = B;
  u64 word[B];

  __device__ __forceinline__ void push(u32 code) {  // a code comes in at the top lane, those before move down
#pragma unroll
    for (int b = 0; b < B; b++) word[b] = word[b] >> 1 | (u64)(code >> b) << 63;
  }
};

// The codes of lanes 0 .. 63, four at a time: next(lane) gives those of lanes lane .. lane + 3.
template <int B, class Next>
__device__ __forceinline__ Planes<B> collect(Next next) {
  Planes<B> planes = {};
#pragma unroll 1
  for (u32 lane = 0; lane < LANES; lane += 4) {
    const Codes codes = next(lane);
#pragma unroll
    for (int i = 0; i < 4; i++) planes.push(codes.c[i]);
  }
  return planes;
}

// Lanes beyond the last user hold anything: whoever counts leaves them out.
template <int B>
__device__ __forceinline__ void store(const Planes<B>& planes, u32 digits, u32 stride, u64* out) {
#pragma unroll
  for (int b = 0; b < B; b++)
    if (b < digits) out[(u64)b * stride] = planes.word[b];
}

// Calls body with an empty table that is large enough for so many digits, the same number for all threads.
template <class Body>
__device__ __forceinline__ void with_digits(u32 digits, Body body) {
  if (digits <= 6) body(Planes<6>());
  else body(Planes<16>());
}

// Masks of the digits of a value, complemented, from the lowest up: plane ^ mask has the lanes that agree.
struct Digits {
  u32 rest;
  __device__ __forceinline__ explicit Digits(u32 value) : rest(~value) {}
  __device__ __forceinline__ u64 next() {
    const u32 mask = 0u - (rest & 1u);
    rest >>= 1;
    return (u64)mask << 32 | mask;
  }
};

// The lanes whose code is `value`, from digits that stand `stride` words apart.
__device__ __forceinline__ u64 match(const u64* planes, u32 digits, u32 stride, u32 value) {
  u64 lanes = ~0ull;
  Digits digit(value);
#pragma unroll 1
  for (u32 b = 0; b < digits; b++) lanes &= planes[(u64)b * stride] ^ digit.next();
  return lanes;
}
