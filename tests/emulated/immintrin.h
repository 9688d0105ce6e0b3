/* The AVX-512 instructions that counts.c uses, one lane after another: its widest version on a CPU without them. */
#include <stdint.h>

typedef uint64_t __m512i __attribute__((vector_size(64)));
typedef uint8_t Quarter __attribute__((vector_size(16)));
typedef uint8_t Bytes64 __attribute__((vector_size(64)));
typedef uint16_t Shorts32 __attribute__((vector_size(64)));
#define DO static inline __attribute__((always_inline))
#define LANES8 for (int i = 0; i < 8; i++)

static const uint64_t low52 = (1ull << 52) - 1;
DO __m512i _mm512_setzero_si512(void) { return (__m512i){0}; }
DO __m512i _mm512_set1_epi8(char x) { return (__m512i)((uint8_t)x - (Bytes64){0}); }
DO __m512i _mm512_set1_epi16(short x) { return (__m512i)((uint16_t)x - (Shorts32){0}); }
DO __m512i _mm512_and_si512(__m512i a, __m512i b) { return a & b; }
DO __m512i _mm512_add_epi64(__m512i a, __m512i b) { return a + b; }
DO __m512i _mm512_set1_epi64(long long x) { return (uint64_t)x - (__m512i){0}; }
DO __m512i _mm512_loadu_si512(const void *p) {
  __m512i x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}
DO void _mm512_storeu_si512(void *p, __m512i x) { __builtin_memcpy(p, &x, sizeof x); }
DO __m512i _mm512_add_epi16(__m512i a, __m512i b) { return (__m512i)((Shorts32)a + (Shorts32)b); }
DO __m512i _mm512_add_epi8(__m512i a, __m512i b) { return (__m512i)((Bytes64)a + (Bytes64)b); }
DO __m512i _mm512_slli_epi64(__m512i a, int by) { return a << by; }
DO __m512i _mm512_srli_epi64(__m512i a, int by) { return a >> by; }
DO __m512i _mm512_srli_epi16(__m512i a, int by) { return (__m512i)((Shorts32)a >> by); }
DO __m512i _mm512_mul_epu32(__m512i a, __m512i b) { return (a & 0xffffffffu) * (b & 0xffffffffu); }
DO __m512i _mm512_madd52lo_epu64(__m512i sum, __m512i a, __m512i b) {
  LANES8 sum[i] += (uint64_t)((unsigned __int128)(a[i] & low52) * (b[i] & low52)) & low52;
  return sum;
}
DO __m512i _mm512_madd52hi_epu64(__m512i sum, __m512i a, __m512i b) {
  LANES8 sum[i] += (uint64_t)((unsigned __int128)(a[i] & low52) * (b[i] & low52) >> 52);
  return sum;
}
DO __m512i _mm512_ternarylogic_epi64(__m512i a, __m512i b, __m512i c, int table) {
  __m512i r = {0};
  for (int i = 0; i < 8; i++)
    if (table >> i & 1) r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  return r;
}
typedef uint8_t __mmask8;
DO __mmask8 _mm512_cmplt_epu64_mask(__m512i a, __m512i b) {
  __mmask8 r = 0;
  LANES8 r |= (__mmask8)((a[i] < b[i]) << i);
  return r;
}
DO __m512i _mm512_mask_sub_epi64(__m512i otherwise, __mmask8 mask, __m512i a, __m512i b) {
  LANES8 otherwise[i] = mask >> i & 1 ? a[i] - b[i] : otherwise[i];
  return otherwise;
}
DO __m512i _mm512_maskz_compress_epi16(uint32_t mask, __m512i a) {
  Shorts32 r = {0};
  for (int i = 0, to = 0; i < 32; i++)
    if (mask >> i & 1) r[to++] = ((Shorts32)a)[i];
  return (__m512i)r;
}
DO __m512i _mm512_popcnt_epi64(__m512i a) {
  LANES8 a[i] = (uint64_t)__builtin_popcountll(a[i]);
  return a;
}
DO uint8_t _mm512_test_epi64_mask(__m512i a, __m512i b) {
  uint8_t r = 0;
  LANES8 r |= (uint8_t)(((a[i] & b[i]) != 0) << i);
  return r;
}
DO uint32_t _mm512_test_epi16_mask(__m512i a, __m512i b) {
  const Shorts32 both = (Shorts32)(a & b);
  uint32_t r = 0;
  for (int i = 0; i < 32; i++) r |= (uint32_t)(both[i] != 0) << i;
  return r;
}
DO Quarter _mm_setr_epi8(char a, char b, char c, char d, char e, char f, char g, char h, char i, char j, char k, char l,
                         char m, char n, char o, char p) {
  return (Quarter){(uint8_t)a, (uint8_t)b, (uint8_t)c, (uint8_t)d, (uint8_t)e, (uint8_t)f, (uint8_t)g, (uint8_t)h,
                   (uint8_t)i, (uint8_t)j, (uint8_t)k, (uint8_t)l, (uint8_t)m, (uint8_t)n, (uint8_t)o, (uint8_t)p};
}
DO __m512i _mm512_broadcast_i32x4(Quarter x) {
  Bytes64 r;
  for (int i = 0; i < 64; i++) r[i] = x[i % 16];
  return (__m512i)r;
}
DO __m512i _mm512_shuffle_epi8(__m512i table, __m512i at) {
  const Bytes64 t = (Bytes64)table, a = (Bytes64)at;
  Bytes64 r;
  for (int i = 0; i < 64; i++) r[i] = a[i] & 0x80 ? 0 : t[i / 16 * 16 + (a[i] & 15)];
  return (__m512i)r;
}
DO __m512i _mm512_sad_epu8(__m512i a, __m512i b) { /* b is 0 */
  const Bytes64 bytes = (Bytes64)(a | b);
  __m512i r = {0};
  for (int i = 0; i < 64; i++) r[i / 8] += bytes[i];
  return r;
}
