/* The counts of a simulation on a CPU, W groups of 64 users at a time.  The integers are those of the NumPy backend.

   Plain C with the vector extensions of GCC and Clang.  What a compiler does not find by itself (the upper half of a
   64 x 64 bit product in a vector, logic of three words, the digits of codes as masks) has an #if, followed by a version
   for every other machine.

   Three things make it fast, and none of them changes an integer:
   1. Shared rounds (`prepare`, `draw`).  Philox mixes a counter (block, column, repetition, 0).  In its first two and
      a half rounds some products depend on the block and the repetition alone and others on the column and the
      repetition alone.  They are computed once for all columns, or once for all blocks; of the 20 products of a block 15
      are left.  The words are exactly those of ten full rounds.
   2. Lazy levels (`settle`).  A report bit is U < T for a U of 24 binary digits.  The upper 16 decide it unless they equal
      those of T.  A word is addressed, not taken from a sequence, so the words of the other 8 levels need not be drawn
      until a group has such a user: one group in a thousand for each threshold.  What was counted for that group
      is then taken back and counted again with all 24 levels.
   3. Nibbles (`reach`).  Whether four digits of U are at least 1, 2, …, 15 is found once for all thresholds; going up the
      digits of a threshold, four at a time, is to look up two of these words.  With AVX-512 and a few thresholds it is
      faster to jump to the code of one of 16 cases, in which the compiler sees constants (`reach_few`). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

typedef int32_t i32;
typedef int64_t i64;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef unsigned __int128 u128;

/* W words of a vector: so many groups of 64 users, or blocks of four words of the VALUE stream, at a time.  BATCH: vectors
   of groups whose reports are counted together; more than one need 32 registers. */
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
enum { W = 8, BATCH = 4 };
#define AVX512 1
#elif defined(__AVX2__)
enum { W = 4, BATCH = 1 };
#define AVX2 1
#else
enum { W = 2, BATCH = 1 };
#endif
typedef u64 V __attribute__((vector_size(8 * W)));
#define INLINE static inline __attribute__((always_inline))
#define EACH for (int i = 0; i < W; i++)

enum { DATA, ASSIGN, VALUE, BITS, BALANCE }; /* streams: the second half of the Philox key */
enum { LEVELS = 24, FIRST = 16, BALANCE_ROUNDS = 8 };
enum { CHUNK = 256 }; /* groups of 64 users that are worked on at a time: their words stay in the cache */
enum { LISTED = BATCH > 1 ? 16 : 1 }; /* groups whose users are listed before it is looked up what they keep */
enum { FEW = BATCH > 1 ? 24 : 0 }; /* thresholds: with more of them, a CPU can't foretell the jumps of `reach_few` */
enum { MOST_LAZY = 64 }; /* thresholds: with more of them, 16 levels leave too many groups undecided */
enum { ZERO, FAKE, OWN, NOTHING }; /* what is sent for an attribute that the user did not sample */

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* Philox4x64-10: a round maps (c0, c1, c2, c3) to (high(c2 M1) ^ c1 ^ k0, low(c2 M1), high(c0 M0) ^ c3 ^ k1, low(c0 M0)),
   and the key (k0, k1) = (seed, stream) grows by (W0, W1) from round to round. */
static const u64 M0 = 0xD2E7470EE14C6C93u, M1 = 0xCA5A826395121157u, W0 = 0x9E3779B97F4A7C15u, W1 = 0xBB67AE8584CAA73Bu;

INLINE V all(u64 x) { return x - (V){0}; }
INLINE V stepping(u64 first, u64 step) { V r; EACH r[i] = first + i * step; return r; }
INLINE u64 high1(u64 a, u64 m) { return (u64)((u128)a * m >> 64); }

#if AVX512
INLINE V times32(V a, V b) { return (V)_mm512_mul_epu32((__m512i)a, (__m512i)b); } /* of the lower halves of the lanes */
#elif AVX2
INLINE V times32(V a, V b) { return (V)_mm256_mul_epu32((__m256i)a, (__m256i)b); }
#else
INLINE V times32(V a, V b) { return (a & 0xffffffffu) * (b & 0xffffffffu); }
#endif

/* The upper half of a product of 64 x 64 bits. */
#if AVX512 && defined(__AVX512IFMA__)
/* Both halves, from pieces of 52 and 12 bits: `middle` stands at bit 52, `top` at bit 104. */
INLINE void by_pieces(V a, u64 m, V *upper, V *lower) {
  const __m512i x = (__m512i)a, x1 = _mm512_srli_epi64(x, 52), m0 = (__m512i)all(m), m1 = (__m512i)all(m >> 52);
  const __m512i none = _mm512_setzero_si512();
  __m512i middle = _mm512_madd52hi_epu64(none, x, m0), top = _mm512_madd52hi_epu64(none, x, m1);
  middle = _mm512_madd52lo_epu64(_mm512_madd52lo_epu64(middle, x, m1), x1, m0);
  top = _mm512_madd52lo_epu64(_mm512_madd52hi_epu64(top, x1, m0), x1, m1);
  *upper = (V)_mm512_add_epi64(_mm512_slli_epi64(top, 40), _mm512_srli_epi64(middle, 12));
  *lower = (V)_mm512_madd52lo_epu64(_mm512_slli_epi64(middle, 52), x, m0);
}
INLINE V high(V a, u64 m) { V upper, lower; by_pieces(a, m, &upper, &lower); return upper; }
#elif AVX512 || AVX2
INLINE V high(V a, u64 m) { /* from pieces of 32 bits, as in long multiplication */
  const V a1 = a >> 32, p00 = times32(a, all(m)), p10 = times32(a1, all(m)), p01 = times32(a, all(m >> 32));
  const V t = p10 + (p00 >> 32), w = p01 + (t & 0xffffffffu);
  return times32(a1, all(m >> 32)) + (t >> 32) + (w >> 32);
}
#else
INLINE V high(V a, u64 m) { V r; EACH r[i] = high1(a[i], m); return r; }
#endif
#if AVX2
INLINE V low(V a, u64 m) {
  return times32(a, all(m)) + ((times32(a >> 32, all(m)) + times32(a, all(m >> 32))) << 32);
}
#elif AVX512
INLINE V low(V a, u64 m) { return a * all(m); }
#else
INLINE V low(V a, u64 m) { V r; EACH r[i] = a[i] * m; return r; }
#endif

/* Both halves of a product with M0 or M1. */
#if AVX512 && defined(__AVX512IFMA__) && (defined(__znver3__) || defined(__znver4__) || defined(__znver5__))
/* Five multiplications, where one of 64 bits is a single step.  a = x + 2**52 y and m = u + 2**52 v have upper parts of 12
   bits, so that floor(x m / 2**52) = x v + floor(x u / 2**52) has at most 64 bits.  4096 times the upper half is that
   plus y m: what `t` has of y m is y (m modulo 4096), and minus 2**52 y v, since its first term is a v and not x v. */
INLINE void multiply(V a, u64 m, V *upper, V *lower) {
  const V y = a >> 52, v_times_a = low(a, m >> 52);
  const __m512i above = _mm512_madd52hi_epu64((__m512i)v_times_a, (__m512i)a, (__m512i)all(m));
  const V t = (V)above + low(y, (m & 4095) - (m >> 52 << 52));
  *upper = (t >> 12) + low(y, m >> 12);
  *lower = low(a, m);
}
#elif AVX512 && defined(__AVX512IFMA__)
INLINE void multiply(V a, u64 m, V *upper, V *lower) { by_pieces(a, m, upper, lower); }
#else
INLINE void multiply(V a, u64 m, V *upper, V *lower) { *upper = high(a, m); *lower = low(a, m); }
#endif

#if AVX512
#define LOGIC(table, a, b, c, otherwise) ((V)_mm512_ternarylogic_epi64((__m512i)(a), (__m512i)(b), (__m512i)(c), table))
#else
#define LOGIC(table, a, b, c, otherwise) (otherwise)
#endif
#define XOR3(a, b, c) LOGIC(0x96, a, b, c, (a) ^ (b) ^ (c))
#define SELECT(m, a, b) LOGIC(0xCA, m, a, b, (b) ^ ((m) & ((a) ^ (b)))) /* a where m, else b */

/* One round of W blocks. */
INLINE void philox_round(V c[4], V k0, V k1) {
  V p, q, pl, ql;
  multiply(c[0], M0, &p, &pl);
  multiply(c[2], M1, &q, &ql);
  c[0] = XOR3(q, c[1], k0);
  c[2] = XOR3(p, c[3], k1);
  c[1] = ql;
  c[3] = pl;
}

/* The shared rounds.  Round 1 of (block, column, repetition, 0) gives
     c0 = high(repetition M1) ^ column ^ seed    no block        c1 = low(repetition M1)    neither
     c2 = high(block M0) ^ stream                no column       c3 = low(block M0)         no column
   Round 2 multiplies c0 (`Column`: once for all blocks) and c2 (`Start`: once for all columns).  Its outputs are
     c0 = high(c2 M1) ^ c1 ^ key                 no column       c1 = low(c2 M1)            no column
     c2 = high(c0 M0) ^ c3 ^ key                 both            c3 = low(c0 M0)            no block
   In round 3 the product of c0 is shared again; only that of c2 is left for each block and column (`draw`). */
typedef struct { V mixed, next, high, low; } Start; /* whatever the column, for W blocks of a repetition */
typedef struct { u64 high, low; } Column;           /* whatever the block */

INLINE Start prepare(u64 seed, u64 stream, u64 repetition, V counter) {
  V c0, c2, low0, low2, upper, lower;
  multiply(counter, M0, &c2, &low2);
  multiply(c2 ^ stream, M1, &c0, &low0);
  multiply(c0 ^ (M1 * repetition ^ (seed + W0)), M0, &upper, &lower);
  return (Start){low2 ^ (stream + W1), low0 ^ (seed + 2 * W0), upper ^ (stream + 2 * W1), lower};
}
INLINE Column column_of(u64 seed, u64 repetition, u64 column) {
  const u128 p = (u128)M0 * (high1(repetition, M1) ^ column ^ seed);
  return (Column){(u64)(p >> 64), (u64)p};
}
/* The blocks of two to four starts: out[4 b + i] has word i of W blocks.  Several at a time, since a product takes longer
   than it keeps a multiplier busy.  With AVX2 the last start goes through the scalar multiplier, which would be idle;
   without wide vectors all of them do. */
#if AVX512
enum { SCALAR_STARTS = 0 };
#elif AVX2
enum { SCALAR_STARTS = 1 };
#else
enum { SCALAR_STARTS = 4 };
#endif
INLINE void draw(u64 seed, u64 stream, const Start *start, Column column, const int many, V *out) {
  const int vectors = many > SCALAR_STARTS ? many - SCALAR_STARTS : 0, lanes = (many - vectors) * W;
  V c[4][4];
  u64 s[4][SCALAR_STARTS * W + 1];
  for (int b = 0; b < many; b++) {
    const V x = start[b].mixed ^ column.high;
    if (b < vectors) {
      multiply(x, M1, &c[b][0], &c[b][1]);
      c[b][0] ^= start[b].next;
      c[b][2] = start[b].high ^ column.low;
      c[b][3] = start[b].low;
    } else
      EACH {
        const int l = (b - vectors) * W + i;
        s[0][l] = high1(x[i], M1) ^ start[b].next[i];
        s[1][l] = x[i] * M1;
        s[2][l] = start[b].high[i] ^ column.low;
        s[3][l] = start[b].low[i];
      }
  }
#pragma GCC unroll 1
  for (int r = 3; r < 10; r++) {
    const u64 k0 = seed + r * W0, k1 = stream + r * W1;
#pragma GCC unroll 4
    for (int b = 0; b < vectors; b++) philox_round(c[b], all(k0), all(k1));
#pragma GCC unroll 4
    for (int l = 0; l < lanes; l++) {
      const u128 p = (u128)M0 * s[0][l], q = (u128)M1 * s[2][l];
      s[0][l] = (u64)(q >> 64) ^ s[1][l] ^ k0;
      s[2][l] = (u64)(p >> 64) ^ s[3][l] ^ k1;
      s[1][l] = (u64)q;
      s[3][l] = (u64)p;
    }
  }
  for (int b = 0; b < many; b++)
    for (int j = 0; j < 4; j++)
      if (b < vectors) out[4 * b + j] = c[b][j];
      else memcpy(out + 4 * b + j, s[j] + (b - vectors) * W, sizeof(V));
}
/* All ten rounds, for blocks and columns that have nothing in common. */
INLINE void draw_any(u64 seed, u64 stream, u64 repetition, V counter, V column, V *out) {
  V c[4] = {counter, column, all(repetition), all(0)};
  for (int r = 0; r < 10; r++) philox_round(c, all(seed + r * W0), all(stream + r * W1));
  for (int j = 0; j < 4; j++) out[j] = c[j];
}

/* ---- bits -------------------------------------------------------------------------------------------------------- */

INLINE V ones(V x) {
#if AVX512 && defined(__AVX512VPOPCNTDQ__)
  return (V)_mm512_popcnt_epi64((__m512i)x);
#elif AVX512 || AVX2 /* of each half byte from a table, then the sum of eight bytes */
#if AVX512
#define OF(name) _mm512_##name
#define QUARTERS(x) _mm512_broadcast_i32x4(x)
#define BOTH(a, b) _mm512_and_si512(a, b)
#define NONE _mm512_setzero_si512()
  typedef __m512i Bytes;
#else
#define OF(name) _mm256_##name
#define QUARTERS(x) _mm256_broadcastsi128_si256(x)
#define BOTH(a, b) _mm256_and_si256(a, b)
#define NONE _mm256_setzero_si256()
  typedef __m256i Bytes;
#endif
  const Bytes four = OF(set1_epi8)(15), y = (Bytes)x;
  const Bytes table = QUARTERS(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
  return (V)OF(sad_epu8)(OF(add_epi8)(OF(shuffle_epi8)(table, BOTH(y, four)),
                                      OF(shuffle_epi8)(table, BOTH(OF(srli_epi16)(y, 4), four))), NONE);
#else
  V r; EACH r[i] = (u64)__builtin_popcountll(x[i]); return r;
#endif
}
INLINE u64 sum(V x) { u64 s = 0; EACH s += x[i]; return s; }
INLINE u32 nonzero(V x) { /* a bit per lane */
#if AVX512
  return _mm512_test_epi64_mask((__m512i)x, (__m512i)x);
#else
  u32 r = 0; EACH r |= (u32)(x[i] != 0) << i; return r;
#endif
}
INLINE V load(const u64 *p) { V x; memcpy(&x, p, sizeof x); return x; }
INLINE void store(u64 *p, V x) { memcpy(p, &x, sizeof x); }

enum { PARTS = 16 / W }; /* vectors with the codes of 64 users, 16 bits each, in the users' order */
enum { TOGETHER = PARTS < 4 ? 4 / PARTS : 1 }; /* groups whose words are drawn together: four starts in a call of `draw` */

/* Digit b of 64 codes as a word, for b < digits. */
INLINE void pack(const V codes[PARTS], int digits, i64 stride, u64 *planes) {
  for (int b = 0; b < digits; b++) {
    u64 word = 0;
#if AVX512
    const __m512i bit = _mm512_set1_epi16((short)(1 << b));
    word = (u64)_mm512_test_epi16_mask((__m512i)codes[1], bit) << 32 | _mm512_test_epi16_mask((__m512i)codes[0], bit);
#elif AVX2
    for (int i = 0; i < 2; i++) { /* the digit becomes the sign of its byte */
      const __m256i bytes = _mm256_packs_epi16(_mm256_slli_epi16((__m256i)codes[2 * i], 15 - b),
                                               _mm256_slli_epi16((__m256i)codes[2 * i + 1], 15 - b));
      word |= (u64)(u32)_mm256_movemask_epi8(_mm256_permute4x64_epi64(bytes, 0xD8)) << 32 * i;
    }
#else
    for (int i = 0; i < 16; i++) {
      const u64 four = codes[i / W][i % W] >> b & 0x0001000100010001u;
      word |= (four * 0x0001000200040008u >> 48) << 4 * i;
    }
#endif
    planes[b * stride] = word;
  }
}
/* The lanes of some vectors whose code is v. */
#define EVERY _Pragma("GCC unroll 4") for (int i = 0; i < many; i++)
INLINE void match(const u64 *planes, int digits, u32 v, const V *among, V *found, const int many) {
  V x[BATCH];
  EVERY x[i] = among[i];
  for (int b = 0; b < digits; b++, planes += CHUNK) {
    EVERY {
      const V digit = load(planes + W * i);
      x[i] = LOGIC(0x60, x[i], digit, all((v >> b & 1) - 1ull), v >> b & 1 ? x[i] & digit : x[i] & ~digit); /* no jump */
    }
  }
  EVERY found[i] = x[i];
}
INLINE V match1(const u64 *planes, int digits, u32 v, V among) {
  match(planes, digits, v, &among, &among, 1);
  return among;
}

/* ---- what to count ----------------------------------------------------------------------------------------------- */

typedef struct { i32 recipe, q, p; } Slot;       /* a recipe of `Bits`; q and p are places in `threshold` */
typedef struct { i32 kind, prior, stop; } Run;   /* slots up to `stop` in which the same users encode a value */
typedef struct { i32 recipe, prior, step; } Kept; /* a recipe of `Keep` or `Sets`; prior -1: only those who sampled report */
typedef struct {                                 /* a distribution of fake values */
  const u64 *thresholds;                         /* NULL: uniform */
  i32 encoded, counted;                          /* whether recipes of `Bits` and of `Keep` or `Sets` have it */
} Prior;
typedef struct {                 /* recipes with the same messages: values, or those of a design of message sets */
  i32 messages, digits, size;    /* size: of a value's set; 0: a value is its own message */
  i32 priors, mine_keeps, all_keeps, kepts;
  i64 bins;                      /* where their counts begin in `bins` of the attribute, if there were one repetition */
  const u32 *table;              /* [value][size]; NULL: Hadamard's sets */
  const Prior *prior;
  const u64 *keeps;              /* ascending: of those who sampled it, 2**32, of everyone, 2**32 */
  const u16 *least;              /* [2][256]: the first of them that a draw with these 8 upper bits can be below */
  const Kept *kept;
} Sent;
typedef struct {
  i32 index, k, digits, wide;    /* wide: codes of 16 bits, not 8 */
  u64 offset;                    /* column of its first value in the BITS stream */
  const void *codes;             /* the users' values, from group `held` of the job on */
  i64 *out;                      /* [recipe][repetition][value], added to */
  i64 *bins;                     /* for messages of designs, zeros: [kept][repetition][message] of each `sent` */
  i32 sents, thresholds, slots, runs;
  const Sent *sent;
  const u32 *threshold;          /* out of 2**24; one more place stands for 2**24 itself, which no U reaches */
  const i32 *partial;            /* per threshold: it matters only for those who sampled the attribute */
  const Slot *slot;
  const Run *run;
} Attribute;
typedef struct {
  u64 seed, n;                   /* n: users of the whole data set */
  i64 held, first, groups;       /* groups of 64 users: the first in `codes`; what this call works on */
  i64 repetitions;               /* rows of `out` */
  const u64 *repetition;
  const Attribute *attribute;
  i64 *sampled;                  /* [repetition][attribute], added to; or NULL */
  const volatile i32 *stop;      /* not 0: give up, the counts are not wanted any more */
  i32 d, digits, balanced, needs_assignment, attributes; /* d: of the whole data set */
} Job;

/* Of a threshold in `least` of `reach`.  `first`: from the upper 16 digits, which whoever equals has reached if those
   below are 0. */
typedef struct { const V *at[LEVELS / 4], *first; i32 partial; } Places;

typedef struct {                 /* of a chunk of users in a repetition */
  Start bits[CHUNK / W][6], value[CHUNK * PARTS];
  u64 words[64 * CHUNK];         /* of the VALUE stream, of the attribute at hand: drawn once for all that reads them */
  u16 place_in_list[64 * LISTED];   /* see `place_of` */
  u16 listed[2][64 * (LISTED + 1)]; /* who may keep: of those who sampled the attribute, of everyone */
  u64 assigned[16 * CHUNK], mine[CHUNK], valid[CHUNK], y[16 * CHUNK], fake[16 * CHUNK], step[16 * CHUNK];
  i32 pending_group[W], pending_value[W];
  u64 pending_words[FIRST][W];   /* their upper levels */
  V least[LEVELS / 4][17];       /* of `reach` */
  const u64 *x;                  /* [digit][CHUNK]: the users' values of the attribute at hand */
  u64 *planes;                   /* the same of all attributes */
  u64 *mixed;                    /* [prior][16][CHUNK]: digits of what is encoded */
  V *reached, *right, *acc;      /* per threshold, and one more; per slot */
  V (*batch)[BATCH];             /* per threshold, and one more */
  Places *place;                 /* per threshold */
  const void **program;          /* of `reach_few` */
  i64 *moves;                    /* [step][value], twice, and two rows of values */
} Scratch;

/* ---- who sampled what -------------------------------------------------------------------------------------------- */

typedef struct { u64 keys[BALANCE_ROUNDS], shift, n; int low; u64 low_mask, high_mask; } Permutation;

INLINE V mix(V x, u64 key) {
  V z = low(x ^ key, 0xBF58476D1CE4E5B9u);
  z ^= z >> 32;
  return low(z, 0x94D049BB133111EBu) >> 37;
}
INLINE V permute(const Permutation *p, V x) {
  V left = x >> p->low, right = x & p->low_mask;
  for (int i = 0; i < BALANCE_ROUNDS; i += 2) {
    left ^= mix(right, p->keys[i]) & p->high_mask;
    right ^= mix(left, p->keys[i + 1]) & p->low_mask;
  }
  return left << p->low | right;
}
static Permutation permutation(u64 seed, u64 repetition, u64 n) {
  V w[4];
  u64 words[12];
  Permutation p = {.n = n};
  int bits = 8;
  for (u64 b = 0; b < 3; b++) {
    draw_any(seed, BALANCE, repetition, all(1 + b), all(0), w);
    for (int j = 0; j < 4; j++) words[4 * b + j] = w[j][0];
  }
  memcpy(p.keys, words, sizeof p.keys);
  p.shift = n <= 1ull << 32 ? (u64)((words[8] >> 32) * (u128)n >> 32) : words[8] % n;
  while ((n - 1) >> bits) bits++;
  p.low = bits / 2;
  p.low_mask = (1ull << p.low) - 1;
  p.high_mask = (1ull << (bits - p.low)) - 1;
  return p;
}
/* The positions of 64 users in the permutation, side by side.  Whoever is not below n goes on along its cycle. */
INLINE void positions(const Permutation *p, u64 *x) {
  u64 left[64] = {0};
  u8 at[64];
  int many = 0;
#pragma GCC unroll 8
  for (int i = 0; i < 64; i += W) store(x + i, permute(p, load(x + i)));
  for (int i = 0; i < 64; i += W)
    for (u32 who = nonzero((V)(load(x + i) >= p->n)); who; who &= who - 1) at[many++] = (u8)(i + __builtin_ctz(who));
  while (many) {
    int still = 0;
    for (int i = 0; i < many; i++) left[i] = x[at[i]];
    for (int i = 0; i < many; i += W) store(left + i, permute(p, load(left + i)));
    for (int i = 0; i < many; i++) {
      x[at[i]] = left[i];
      at[still] = at[i];
      still += left[i] >= p->n;
    }
    many = still;
  }
  for (int i = 0; i < 64; i += W) {
    const V y = load(x + i) + p->shift;
    store(x + i, y - ((V)(y >= p->n) & p->n));
  }
}
/* x modulo d, exact for x < 2**32: Lemire, Kaser, Kurz 2019. */
INLINE V modulo(V x, u64 d) { return high(low(x, ~0ull / d + 1), d); }
INLINE V scaled(V words, u64 k) { return times32(words >> 32, all(k)) >> 32; }
INLINE V codes_of(const V y[4]) { return y[0] | y[1] << 16 | y[2] << 32 | y[3] << 48; }

static void assign(const Job *job, u64 repetition, i64 first, i64 groups, Scratch *s) {
  if (job->d == 1) return;
  const Column column = column_of(job->seed, repetition, 0);
  Permutation p = {.n = 0};
  if (job->balanced) p = permutation(job->seed, repetition, job->n);
  V words[TOGETHER * PARTS][4];
  for (i64 g = 0; g < groups; g++) {
    V codes[PARTS], (*const a)[4] = words + g % TOGETHER * PARTS;
    const u64 block = (u64)(first + g) * 16; /* of four users */
    for (int part = 0; part < TOGETHER * PARTS && !job->balanced && g % TOGETHER == 0; part += 4) {
      Start start[4];
      for (int i = 0; i < 4; i++)
        start[i] = prepare(job->seed, ASSIGN, repetition, stepping(1 + block + W * (part + i), 1));
      draw(job->seed, ASSIGN, start, column, 4, words[part]);
    }
    u64 place[64];
    for (int i = 0; i < 4 * PARTS && job->balanced; i++) {
      const V user = stepping(4 * (block + W * (i / 4)) + i % 4, 4);
      store(place + W * i, SELECT((V)(user < job->n), user, all(0)));
    }
    if (job->balanced) positions(&p, place);
    for (int part = 0; part < PARTS; part++) {
      for (int j = 0; j < 4; j++)
        if (job->balanced) {
          const V x = load(place + W * (4 * part + j));
          if (job->n <= 1ull << 32) a[part][j] = modulo(x, (u64)job->d);
          else EACH a[part][j][i] = x[i] % (u64)job->d;
        } else
          a[part][j] = scaled(a[part][j], (u64)job->d);
      codes[part] = codes_of(a[part]);
    }
    pack(codes, job->digits, CHUNK, s->assigned + g);
  }
}

/* ---- the VALUE stream -------------------------------------------------------------------------------------------- */

INLINE u32 reached_of(const u64 *thresholds, u32 count, u64 draw) { /* how many of them are <= draw */
  u32 low = 0, high = count;
  while (low < high) {
    const u32 middle = (low + high) / 2;
    if (thresholds[middle] <= draw) low = middle + 1;
    else high = middle;
  }
  return low;
}
INLINE u32 code_of(const Attribute *a, i64 user) { /* counted from the first in `codes` */
  return a->wide ? ((const u16 *)a->codes)[user] : ((const u8 *)a->codes)[user];
}
/* What a user sends who keeps: the value, or a member of its set (designs.py has the same in NumPy). */
INLINE u32 message_of(const Sent *p, u32 v, u64 word) {
  if (!p->size) return v;
  const u32 i = (u32)((word >> 32) * (u64)p->size >> 32);
  if (p->table) return p->table[(size_t)v * (u32)p->size + i];
  const u32 row = v + 1, pivot = row & -row, low = i & (pivot - 1), m = (i ^ low) << 1 | low;
  return m | ((u32)__builtin_popcount(m & row) & 1) * pivot;
}
/* counts[v] += users of `among` whose digits in `planes` are v. */
static void histogram(const u64 *planes, int digits, u32 k, const u64 *among, i64 groups, i64 *counts) {
  for (u32 v = 0; v < k; v++) {
    V total = all(0);
    for (i64 g = 0; g < groups; g += W) total += ones(match1(planes + g, digits, v, load(among + g)));
    counts[v] += sum(total);
  }
}
enum { BY_DIGITS = 64 }; /* cells up to which that is faster than counting one by one */
INLINE int digits_of(i32 k) { return k > 1 ? 32 - __builtin_clz((u32)k - 1) : 0; }

/* Where the word of a user is, counted from the first of a group. */
INLINE u32 place_of(u32 u) { return u / (4 * W) * 4 * W + u % 4 * W + u / 4 % W; }
INLINE u64 word_of(const V *words, u32 place) {
  u64 word;
  memcpy(&word, (const u8 *)words + sizeof word * place, sizeof word);
  return word;
}
/* A user who keeps moves from y to x, at the first threshold that the draw is below: one of `span` from `least` on, or 0
   if nobody knows.  values: a value is its own message. */
typedef struct { const Attribute *a; const Sent *p; const u16 *least; i64 *to, *from; } Moves;
INLINE void move(const Moves *m, i64 user, u64 word, const int span, const int values, const int wide) {
  const u64 h = (u32)word, k = (u64)m->p->messages, *const keeps = m->p->keeps;
  const u32 v = wide ? ((const u16 *)m->a->codes)[user] : ((const u8 *)m->a->codes)[user];
  u64 step = m->least[h >> 24];
  if (span) step += h >= keeps[step];
  else
    while (h >= keeps[step]) step++;
  m->to[step * k + (values ? v : message_of(m->p, v, word))]++;
  m->from[step * k + ((word >> 32) * k >> 32)]++;
}
#if AVX512
/* Appends some users of a group to a list.  A loop over each group's ends now here, now there, which a CPU can't foretell. */
INLINE int list(u64 who, int first, u16 *listed, int many) {
#if defined(__AVX512VBMI2__)
  static const u16 order[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
  for (int half = 0; half < 64; half += 32) {
    const __m512i users = _mm512_add_epi16(_mm512_loadu_si512(order), _mm512_set1_epi16((short)(first + half)));
    _mm512_storeu_si512(listed + many, _mm512_maskz_compress_epi16((u32)(who >> half), users));
    many += __builtin_popcount((u32)(who >> half));
  }
#else
  for (; who; who &= who - 1) listed[many++] = (u16)(first + __builtin_ctzll(who));
#endif
  return many;
}
/* Not inline: `count_values` has no registers left for it. */
static __attribute__((noinline)) void move_all(const Moves *moves, const u16 *listed, int many, const u16 *place, const V *words,
                                               i64 user, int span) {
  const Moves m = *moves;
#define MOVE_EACH(span, values, wide)                                                                          \
  for (int i = 0; i < many; i++)                                                                               \
    move(&m, user + listed[i], word_of(words, place[listed[i]]), span, values, wide);
  if (span > 1) MOVE_EACH(0, 0, m.a->wide)
  else if (m.p->size) MOVE_EACH(1, 0, m.a->wide)
  else if (m.a->wide) MOVE_EACH(1, 1, 1)
  else MOVE_EACH(1, 1, 0)
}
#endif

static void count_values(const Job *job, const Attribute *a, const Sent *p, i64 row, i64 first, i64 groups, Scratch *s) {
  const Column column = column_of(job->seed, job->repetition[row], (u64)a->index);
  const int steps = p->mine_keeps + p->all_keeps + 2, k = p->messages;
  const u64 largest = p->all_keeps ? p->keeps[p->mine_keeps + p->all_keeps] : 0; /* of everyone's: who keeps is below */
  const int sliced = !p->size && p->all_keeps * k <= BY_DIGITS && largest >> 29; /* if many keep; else one after another */
  i64 *const to = s->moves, *const from = to + (size_t)steps * k; /* [step][value] */
  i64 *const mine_y = from + (size_t)steps * k, *const sent = mine_y + k;
  const int shared = a->sents > 1 || p->priors > 1;
  const Moves moves[2] = {{a, p, p->least, to, from}, {a, p, p->least + 256, to, from}};
  V words[4 * PARTS * LISTED];
#if AVX512
  int listed[2] = {0, 0}, span[2] = {1, 1}; /* span: the most thresholds of equal 8 upper bits */
  for (int i = 1, run = 1; i < steps - 1; i++) {
    run = p->keeps[i] >> 24 == p->keeps[i - 1] >> 24 ? run + 1 : 1;
    if (run > span[i > p->mine_keeps]) span[i > p->mine_keeps] = run;
  }
#endif
  memset(to, 0, (size_t)(2 * steps + 2) * k * sizeof *to);
  for (i32 f = 0; f < p->priors; f++) {
    const Prior *prior = p->prior + f;
    const u64 *fake = prior->thresholds ? s->fake : s->y;
    memset(sent, 0, (size_t)k * sizeof *sent);
    for (i64 g = 0; g < groups; g++) {
      V codes[PARTS];
      V *const drawn = words + g % LISTED * 4 * PARTS;
      if (g % TOGETHER == 0) {
        if (f || p > a->sent) memcpy(drawn, s->words + 64 * g, TOGETHER * 4 * PARTS * sizeof *drawn);
        else {
          for (int part = 0; part < TOGETHER * PARTS; part += 4)
            draw(job->seed, VALUE, s->value + PARTS * g + part, column, 4, drawn + 4 * part);
          if (shared) memcpy(s->words + 64 * g, drawn, TOGETHER * 4 * PARTS * sizeof *drawn);
        }
      }
      for (int part = 0; part < PARTS; part++) {
        V y[4];
        for (int j = 0; j < 4; j++) y[j] = scaled(drawn[4 * part + j], (u64)k);
        codes[part] = codes_of(y);
      }
      if (k <= BY_DIGITS || prior->encoded || sliced) pack(codes, p->digits, CHUNK, s->y + g);
      if (prior->thresholds) {
        u16 fakes[64];
        for (int u = 0; u < 64; u++) fakes[u] = (u16)reached_of(prior->thresholds, (u32)k - 1, word_of(drawn, place_of((u32)u)) >> 32);
        memcpy(codes, fakes, sizeof codes);
        pack(codes, a->digits, CHUNK, s->fake + g);
      }
      if (prior->counted && k > BY_DIGITS) {
        const u64 uniform = k > 1 << 16 ? ~0ull : prior->thresholds ? s->mine[g] : 0; /* there is no room for them in codes */
        u16 fakes[64];
        memcpy(fakes, codes, sizeof codes);
        for (u64 left = s->valid[g]; left; left &= left - 1) {
          const int u = __builtin_ctzll(left);
          sent[uniform >> u & 1 ? (word_of(drawn, place_of((u32)u)) >> 32) * (u64)k >> 32 : fakes[u]]++;
        }
      }
      if (f) continue;
      u64 may_keep = 0;
      if (p->all_keeps && !sliced) {
        for (int part = 0; part < PARTS; part++) {
          V below[4];
          for (int j = 0; j < 4; j++) below[j] = (V)((drawn[4 * part + j] & 0xffffffffu) < all(largest)) & 1;
          codes[part] = codes_of(below);
        }
        pack(codes, 1, 0, &may_keep);
      }
      for (int everyone = p->mine_keeps ? 0 : 1; everyone < 2; everyone++) { /* those who keep move from y to x */
        const u64 who = everyone ? may_keep & s->valid[g] : s->mine[g];
#if AVX512
        const i64 back = g % LISTED;
        listed[everyone] = list(who, (int)back * 64, s->listed[everyone], listed[everyone]);
        if (back < LISTED - 1 && g < groups - 1) continue;
        move_all(&moves[everyone], s->listed[everyone], listed[everyone], s->place_in_list, words,
                 (first - job->held + g - back) * 64, span[everyone]);
        listed[everyone] = 0;
#else
        const Moves m = moves[everyone];
        for (u64 left = who; left; left &= left - 1) {
          const int u = __builtin_ctzll(left);
          move(&m, (first - job->held + g) * 64 + u, word_of(drawn, place_of((u32)u)), 0, 0, a->wide);
        }
#endif
      }
      if (sliced) {
        for (int part = 0; part < PARTS; part++) {
          V step[4];
          for (int j = 0; j < 4; j++) {
            step[j] = all(0);
            for (int i = 0; i < p->all_keeps; i++)
              step[j] -= (V)((drawn[4 * part + j] & 0xffffffffu) >= all(p->keeps[p->mine_keeps + 1 + i]));
          }
          codes[part] = codes_of(step);
        }
        pack(codes, digits_of(p->all_keeps + 1), CHUNK, s->step + g);
      }
    }
    if (f == 0 && sliced)
      for (int step = 0; step < p->all_keeps; step++) {
        const size_t cells = (size_t)(p->mine_keeps + 1 + step) * k;
        u64 here[CHUNK];
        for (i64 g = 0; g < groups; g += W)
          store(here + g, match1(s->step + g, digits_of(p->all_keeps + 1), (u32)step, load(s->valid + g)));
        histogram(s->x, a->digits, (u32)k, here, groups, to + cells);
        histogram(s->y, a->digits, (u32)k, here, groups, from + cells);
      }
    if (f == 0) {
      for (int step = 0; step <= p->mine_keeps; step++)
        for (int v = 0; v < k; v++) mine_y[v] += from[(size_t)step * k + v];
      for (int step = 0; step < steps; step++) /* from what changes at a threshold to the whole change */
        for (int v = 0; v < k; v++) {
          i64 *const change = to + (size_t)step * k + v;
          *change += (step && step != p->mine_keeps + 1 ? change[-k] : 0) - from[(size_t)step * k + v];
        }
    }
    u64 *mixed = p->size ? s->fake : s->mixed + (size_t)f * 16 * CHUNK; /* those of values are for `Bits`, too */
    if (prior->counted && k <= BY_DIGITS) { /* sent if nobody keeps: y of those who sampled it, a fake of the others */
      for (int b = 0; b < p->digits; b++)
        for (i64 g = 0; g < groups; g++) {
          const u64 z = fake[b * CHUNK + g];
          mixed[b * CHUNK + g] = z ^ ((s->y[b * CHUNK + g] ^ z) & s->mine[g]);
        }
      histogram(mixed, p->digits, (u32)k, s->valid, groups, sent);
    }
    for (i32 i = 0; i < p->kepts; i++) {
      const Kept *kept = p->kept + i;
      if (kept->prior != f && !(kept->prior < 0 && f == 0)) continue;
      i64 *out = p->size ? a->bins + p->bins * job->repetitions + (i * job->repetitions + row) * k
                         : a->out + ((size_t)kept->recipe * job->repetitions + row) * k;
      const i64 *base = kept->prior < 0 ? mine_y : sent, *change = to + (size_t)kept->step * k;
      for (int v = 0; v < k; v++) out[v] += base[v] + change[v];
    }
    if (prior->encoded) /* x of those who sampled the attribute, a fake of the others */
      for (int b = 0; b < a->digits; b++)
        for (i64 g = 0; g < groups; g++) {
          const u64 z = fake[b * CHUNK + g];
          mixed[b * CHUNK + g] = z ^ ((s->x[b * CHUNK + g] ^ z) & s->mine[g]);
        }
  }
}

/* out[v] += how often a message of the value's set was sent.  `bins` are not needed any more. */
static void add_supported(const Sent *p, i32 k, i64 *bins, i64 *out) {
  if (p->table) {
    const u32 *member = p->table;
    for (i32 v = 0; v < k; v++) {
      i64 sum = 0;
      for (i32 i = 0; i < p->size; i++) sum += bins[*member++];
      out[v] += sum;
    }
    return;
  }
  i64 total = 0;
  for (i32 m = 0; m < p->messages; m++) total += bins[m];
  for (i32 half = 1; half < p->messages; half *= 2) /* bins[v]: the sum over m with parity(v & m) = 0, minus the others */
    for (i32 start = 0; start < p->messages; start += 2 * half)
      for (i32 m = start; m < start + half; m++) {
        const i64 a = bins[m], b = bins[m + half];
        bins[m] = a + b;
        bins[m + half] = a - b;
      }
  for (i32 v = 0; v < k; v++) out[v] += (total + bins[v + 1]) / 2;
}
static void support(const Job *job, const Attribute *a) {
  for (const Sent *p = a->sent; p < a->sent + a->sents; p++)
    for (i64 i = 0; p->size && i < p->kepts; i++)
      for (i64 row = 0; row < job->repetitions && !*job->stop; row++)
        add_supported(p, a->k, a->bins + p->bins * job->repetitions + (i * job->repetitions + row) * p->messages,
                      a->out + ((size_t)p->kept[i].recipe * job->repetitions + row) * a->k);
}

/* ---- the BITS stream --------------------------------------------------------------------------------------------- */

/* U >= T for all thresholds, from the lowest four of the upper `levels` digits up.  least[b][v]: whether digits 4 b to
   4 b + 3 of U are at least v, for v from 0 to 16.  Returns who has the upper digits of a threshold and is undecided;
   lanes of nobody count, too. */
INLINE V reach(const Attribute *a, const Places *place, const V *w, V mine, V (*least)[17], V *reached, const int step,
               const int levels) {
  const int first = (LEVELS - levels) / 4;
  V undecided = all(0);
  for (int b = first; b < LEVELS / 4; b++, w += 4) {
    const V low[4] = {all(~0ull), w[0] | w[1], w[1], w[0] & w[1]};
    const V high[5] = {all(~0ull), w[2] | w[3], w[3], w[2] & w[3], all(0)};
#pragma GCC unroll 16
    for (int v = 1; v < 16; v++) {
      const V more = high[v / 4 + 1], same = high[v / 4], then = low[v % 4];
      least[b][v] = v % 4 ? LOGIC(0xF8, more, same, then, more | (same & then)) : same;
    }
  }
  for (i32 t = 0; t < a->thresholds; t++) {
    const V *const *const at = place[t].at;
    V x = *(levels < LEVELS ? place[t].first : at[0]), equal = *at[first] & ~x;
#pragma GCC unroll 6
    for (int b = first + 1; b < LEVELS / 4; b++) {
      if (levels < LEVELS) equal = LOGIC(0x40, equal, at[b][0], at[b][1], equal & at[b][0] & ~at[b][1]);
      x = LOGIC(0xF8, at[b][1], at[b][0], x, at[b][1] | (at[b][0] & x));
    }
    reached[t * step] = x;
    if (levels < LEVELS) undecided |= place[t].partial ? equal & mine : equal;
  }
  return undecided;
}
#if AVX512
/* The same by the upper 16 digits, for a few thresholds: x is U >= T as far as the digits below say, e whether all digits
   so far are T's.  Four digits of T are one of 16 cases, and the cases are a program of addresses, so that finding the
   next one is no work and all words stay in registers.  Only this function has the addresses: without words it writes
   the program. */
#define PAIR_X(t, x, a, b) LOGIC((t) == 0 ? 0xFE : (t) == 1 ? 0xEA : (t) == 2 ? 0xA8 : 0x80, x, a, b, 0)
#define PAIR_EQUAL(t, e, a, b) LOGIC((t) == 0 ? 0x10 : (t) == 1 ? 0x40 : (t) == 2 ? 0x20 : 0x80, e, a, b, 0)
#define SIXTEEN(CASE) CASE(0) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) \
  CASE(12) CASE(13) CASE(14) CASE(15)
static V reach_few(const Attribute *a, const void **program, const V *words, V mine, V (*reached)[BATCH]) {
  V w[FIRST], x = all(0), e = all(0), undecided = all(0);
#define LABEL_ALL(t) &&all_##t,
#define LABEL_MINE(t) &&mine_##t,
#define LABEL_0(t) &&first_##t,
#define LABEL_1(t) &&second_##t,
#define LABEL_2(t) &&third_##t,
#define LABEL_3(t) &&last_##t,
  static const void *const step[6][16] = {{SIXTEEN(LABEL_0)}, {SIXTEEN(LABEL_1)}, {SIXTEEN(LABEL_2)}, {SIXTEEN(LABEL_3)},
                                          {SIXTEEN(LABEL_ALL)}, {SIXTEEN(LABEL_MINE)}};
  if (!words) {
    for (i32 t = 0; t < a->thresholds; t++) {
      const u32 upper = a->threshold[t] >> (LEVELS - FIRST);
      const int exact = upper << (LEVELS - FIRST) == a->threshold[t];
      if (exact) *program++ = &&exact;
      *program++ = step[exact ? 0 : a->partial[t] ? 5 : 4][upper & 15];
      for (int b = 1; b < FIRST / 4; b++) *program++ = step[b][upper >> 4 * b & 15];
    }
    *program = &&done;
    return mine;
  }
#pragma GCC unroll 16
  for (int l = 0; l < FIRST; l++) w[l] = words[l];
#define STEP(t, x, e, d)                                                                                       \
  x = PAIR_X(t & 3, x, (d)[0], (d)[1]);                                                                        \
  x = PAIR_X(t >> 2, x, (d)[2], (d)[3]);                                                                       \
  e = PAIR_EQUAL(t & 3, e, (d)[0], (d)[1]);                                                                    \
  e = PAIR_EQUAL(t >> 2, e, (d)[2], (d)[3]);
#define NEXT goto *(*program++);
  NEXT
#define FROM_ALL(t) all_##t: x = all(0); e = all(~0ull); STEP(t, x, e, w) NEXT
#define FROM_MINE(t) mine_##t: x = all(0); e = mine; STEP(t, x, e, w) NEXT
#define STEP_0(t) first_##t: STEP(t, x, e, w) NEXT
#define STEP_1(t) second_##t: STEP(t, x, e, w + 4) NEXT
#define STEP_2(t) third_##t: STEP(t, x, e, w + 8) NEXT
#define STEP_3(t) last_##t: STEP(t, x, e, w + 12) (*reached++)[0] = x; undecided |= e; NEXT
  SIXTEEN(FROM_ALL) SIXTEEN(FROM_MINE) SIXTEEN(STEP_0) SIXTEEN(STEP_1) SIXTEEN(STEP_2) SIXTEEN(STEP_3)
exact: /* nobody is undecided */
  x = all(~0ull);
  e = all(0);
  NEXT
done:
  return undecided;
}
#endif

/* Some groups that 16 levels did not decide: what was counted for them is taken back and counted again with 24. */
static void settle(const Job *job, const Attribute *a, i64 row, i64 first, int many, Scratch *s) {
  V w[LEVELS], counter, column, mine, hold, valid;
  EACH {
    const i64 g = s->pending_group[i < many ? i : 0];
    const u32 v = (u32)s->pending_value[i < many ? i : 0];
    counter[i] = 1 + 6 * (u64)(first + g);
    column[i] = a->offset + v;
    mine[i] = s->mine[g];
    valid[i] = hold[i] = s->valid[g];
    for (int b = 0; b < a->digits; b++) hold[i] &= s->x[b * CHUNK + g] ^ ((v >> b & 1) - 1ull);
  }
  for (int b = 0; b < (LEVELS - FIRST) / 4; b++)
    draw_any(job->seed, BITS, job->repetition[row], counter + b, column, w + 4 * b);
  for (int l = 0; l < FIRST; l++) w[LEVELS - FIRST + l] = load(s->pending_words[l]);
  for (int l = 0; l < LEVELS; l++) w[l] |= ~valid;
  reach(a, s->place, w, mine, s->least, s->right, 1, LEVELS);
  reach(a, s->place, w + LEVELS - FIRST, mine, s->least, s->reached, 1, FIRST);
  for (i32 r = 0, j = 0; r < a->runs; r++) {
    const Run run = a->run[r];
    const V among = run.kind == NOTHING ? mine : all(~0ull);
    V who = run.kind == OWN ? hold : hold & mine;
    if (run.kind == FAKE)
      EACH {
        const i64 g = s->pending_group[i < many ? i : 0];
        const u32 v = (u32)s->pending_value[i < many ? i : 0];
        who[i] = s->valid[g];
        for (int b = 0; b < a->digits; b++)
          who[i] &= s->mixed[((size_t)run.prior * 16 + b) * CHUNK + g] ^ ((v >> b & 1) - 1ull);
      }
    for (; j < run.stop; j++) {
      const Slot slot = a->slot[j];
      const V change = ones(SELECT(who, s->right[slot.p], s->right[slot.q]) & among) -
                       ones(SELECT(who, s->reached[slot.p], s->reached[slot.q]) & among);
      i64 *out = a->out + ((size_t)slot.recipe * job->repetitions + row) * a->k;
      for (int i = 0; i < many; i++) out[s->pending_value[i]] -= (i64)change[i];
    }
  }
}

/* One value of some vectors of groups. */
INLINE void count_batch(const Job *job, const Attribute *a, i64 row, i64 first, u32 v, Column column, i64 o, i64 octets,
                        Scratch *s, int *pending, const int levels, const int many) {
  V(*const reached)[BATCH] = s->batch, *const acc = s->acc;
  V w[BATCH][LEVELS], mine[BATCH], valid[BATCH], hold[BATCH], undecided[BATCH];
  for (int i = 0; i < many; i++) {
    const int blocks = levels / 4, at_once = blocks % 4 ? 3 : 4;
    mine[i] = load(s->mine + W * (o + i));
    valid[i] = load(s->valid + W * (o + i));
    for (int b = 0; b < blocks; b += at_once) draw(job->seed, BITS, s->bits[o + i] + b, column, at_once, w[i] + 4 * b);
    if (o + i == octets - 1)
      for (int l = 0; l < levels; l++) w[i][l] |= ~valid[i]; /* nobody's U is the largest */
#if AVX512
    if (levels < LEVELS && a->thresholds <= FEW)
      undecided[i] = reach_few(a, s->program, w[i], mine[i], (V(*)[BATCH])&reached[0][i]);
    else
#endif
      undecided[i] = reach(a, s->place, w[i], mine[i], s->least, &reached[0][i], BATCH, levels);
  }
  match(s->x + W * o, a->digits, v, valid, hold, many);
  for (i32 r = 0, j = 0; r < a->runs; r++) {
    const Run run = a->run[r];
    V who[BATCH];
    if (run.kind == FAKE) match(s->mixed + (size_t)run.prior * 16 * CHUNK + W * o, a->digits, v, valid, who, many);
    else EVERY who[i] = run.kind == OWN ? hold[i] : hold[i] & mine[i];
    for (; j < run.stop; j++) {
      const V *const p = reached[a->slot[j].p], *const q = reached[a->slot[j].q];
      V sum = acc[j];
      if (run.kind == NOTHING) EVERY sum += ones(SELECT(who[i], p[i], q[i]) & mine[i]);
      else EVERY sum += ones(SELECT(who[i], p[i], q[i]));
      acc[j] = sum;
    }
  }
  for (int i = 0; i < many && levels < LEVELS; i++)
    for (u32 left = nonzero(undecided[i]); left; left &= left - 1) {
      const int lane = __builtin_ctz(left);
      for (int l = 0; l < FIRST; l++) s->pending_words[l][*pending] = w[i][l][lane];
      s->pending_group[*pending] = (i32)(W * (o + i) + lane);
      s->pending_value[*pending] = (i32)v;
      if (++*pending == W) {
        settle(job, a, row, first, *pending, s);
        *pending = 0;
      }
    }
}
INLINE void count_bits(const Job *job, const Attribute *a, i64 row, i64 first, i64 groups, Scratch *s, const int levels) {
  const i64 octets = (groups + W - 1) / W;
  i64 reporters = 0;
  int pending = 0;
  for (i64 g = 0; g < groups; g++) reporters += __builtin_popcountll(s->mine[g]);
#if AVX512
  if (a->thresholds <= FEW && levels < LEVELS) reach_few(a, s->program, NULL, all(0), NULL);
#endif
  for (i32 t = 0; t < a->thresholds; t++) {
    Places *const p = s->place + t;
    for (int b = 0; b < LEVELS / 4; b++) p->at[b] = s->least[b] + (a->threshold[t] >> 4 * b & 15);
    p->first = p->at[(LEVELS - FIRST) / 4] + (a->threshold[t] % (1 << (LEVELS - FIRST)) != 0);
    p->partial = a->partial[t];
  }
  for (int i = 0; i < BATCH; i++) s->batch[a->thresholds][i] = all(0);
  s->reached[a->thresholds] = s->right[a->thresholds] = all(0);
  for (i32 v = 0; v < a->k && !*job->stop; v++) {
    const Column column = column_of(job->seed, job->repetition[row], a->offset + (u64)v);
    i64 o = 0;
    for (i32 j = 0; j < a->slots; j++) s->acc[j] = all(0);
    for (; o + BATCH <= octets; o += BATCH)
      count_batch(job, a, row, first, (u32)v, column, o, octets, s, &pending, levels, BATCH);
    for (; o < octets; o++) count_batch(job, a, row, first, (u32)v, column, o, octets, s, &pending, levels, 1);
    for (i32 r = 0, j = 0; r < a->runs; r++) {
      const i64 users = a->run[r].kind == NOTHING ? reporters : octets * W * 64; /* nobody's lanes reach every threshold */
      for (; j < a->run[r].stop; j++)
        a->out[((size_t)a->slot[j].recipe * job->repetitions + row) * a->k + v] += users - (i64)sum(s->acc[j]);
    }
  }
  if (pending) settle(job, a, row, first, pending, s);
}
static void count_lazy(const Job *job, const Attribute *a, i64 row, i64 first, i64 groups, Scratch *s) {
  count_bits(job, a, row, first, groups, s, FIRST);
}
static void count_whole(const Job *job, const Attribute *a, i64 row, i64 first, i64 groups, Scratch *s) {
  count_bits(job, a, row, first, groups, s, LEVELS);
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static void prepare_bits(const Job *job, u64 repetition, i64 first, i64 octets, int lowest, Scratch *s) {
  for (i64 o = 0; o < octets; o++)
    for (int b = lowest; b < 6; b++)
      s->bits[o][b - lowest] = prepare(job->seed, BITS, repetition,
                                       stepping((u64)(first + W * o) * 6 + b + 1, 6));
}

/* One repetition of the users of a chunk, whose `valid` and `planes` are there. */
static void repeat(const Job *job, i64 row, i64 first, i64 groups, Scratch *s) {
  const u64 repetition = job->repetition[row];
  int value = 0, lowest = -1;
  for (i32 j = 0; j < job->attributes; j++) value |= job->attribute[j].sents;
  if (job->needs_assignment) assign(job, repetition, first, groups, s);
  if (value)
    for (i64 o = 0; o < PARTS * groups; o++)
      s->value[o] = prepare(job->seed, VALUE, repetition, stepping((u64)first * 16 + W * o + 1, 1));
  s->x = s->planes;
  for (i32 j = 0; j < job->attributes && !*job->stop; s->x += job->attribute[j++].digits * CHUNK) {
    const Attribute *a = job->attribute + j;
    const int lazy = a->thresholds <= MOST_LAZY, wanted = lazy ? (LEVELS - FIRST) / 4 : 0;
    for (i64 g = 0; g < groups; g += W)
      store(s->mine + g, job->needs_assignment && job->d > 1
                             ? match1(s->assigned + g, job->digits, (u32)a->index, load(s->valid + g))
                             : load(s->valid + g));
    if (job->sampled)
      for (i64 g = 0; g < groups; g++) job->sampled[row * job->attributes + j] += __builtin_popcountll(s->mine[g]);
    for (i32 i = 0; i < a->sents; i++) count_values(job, a, a->sent + i, row, first, groups, s);
    if (!a->slots) continue;
    if (wanted != lowest) prepare_bits(job, repetition, first, (groups + W - 1) / W, lowest = wanted, s);
    (lazy ? count_lazy : count_whole)(job, a, row, first, groups, s);
  }
}

/* All repetitions of some users: their values become words of binary digits once for all of them. */
static void chunk(const Job *job, i64 first, i64 groups, Scratch *s) {
  for (i64 g = 0; g < CHUNK; g++) { /* lanes of nobody are never valid */
    const u64 start = (u64)(first + g) * 64;
    s->valid[g] = g >= groups || start >= job->n ? 0 : start + 64 <= job->n ? ~0ull : (1ull << (job->n - start)) - 1;
  }
  u64 *planes = s->planes;
  for (i32 j = 0; j < job->attributes; planes += job->attribute[j++].digits * CHUNK) {
    const Attribute *a = job->attribute + j;
    for (i64 g = 0; g < groups; g++) {
      const i64 user = (first - job->held + g) * 64, users = __builtin_popcountll(s->valid[g]);
      u16 wide[64] = {0};
      V codes[PARTS];
      for (i64 u = 0; u < users; u++) wide[u] = (u16)code_of(a, user + u); /* not past the end of the table */
      memcpy(codes, wide, sizeof codes);
      pack(codes, a->digits, CHUNK, planes + g);
    }
  }
  for (i64 row = 0; row < job->repetitions && !*job->stop; row++) repeat(job, row, first, groups, s);
}

/* Room for `bytes` at the next multiple of 64; only counts it as long as there is no memory behind it. */
static void *room(u8 *memory, size_t *used, size_t bytes) {
  void *at = memory ? memory + *used : NULL;
  *used += (bytes + 63) / 64 * 64;
  return at;
}

/* Adds the counts of a job to its tables; 1 if memory is short. */
int rsfd_count(const Job *job) {
  size_t priors = 1, planes = 0, thresholds = 0, slots = 0, moves = 0, used = 0;
  void *memory = NULL;
  Scratch *s = NULL, layout;
  for (i32 j = 0; j < job->attributes; j++) {
    const Attribute *a = job->attribute + j;
    for (i32 i = 0; i < a->sents; i++) {
      const Sent *p = a->sent + i;
      const size_t m = (size_t)(2 * (p->mine_keeps + p->all_keeps + 2) + 2) * (size_t)p->messages;
      if ((size_t)p->priors > priors) priors = (size_t)p->priors;
      if (m > moves) moves = m;
    }
    if ((size_t)a->thresholds > thresholds) thresholds = (size_t)a->thresholds;
    if ((size_t)a->slots > slots) slots = (size_t)a->slots;
    planes += (size_t)a->digits;
  }
  for (int pass = 0; pass < 2; pass++) { /* how much, then where */
    u8 *base = NULL;
    if (pass) {
      if (!(memory = calloc(used + 64, 1))) return 1;
      base = (u8 *)(((uintptr_t)memory + 63) / 64 * 64);
    }
    used = 0;
    Scratch *const in = room(base, &used, sizeof(Scratch));
    layout.planes = room(base, &used, planes * CHUNK * sizeof(u64));
    layout.mixed = room(base, &used, priors * 16 * CHUNK * sizeof(u64));
    layout.reached = room(base, &used, (thresholds + 1) * sizeof(V));
    layout.right = room(base, &used, (thresholds + 1) * sizeof(V));
    layout.acc = room(base, &used, slots * sizeof(V));
    layout.batch = room(base, &used, (thresholds + 1) * BATCH * sizeof(V));
    layout.place = room(base, &used, thresholds * sizeof(Places));
    layout.program = room(base, &used, (5 * thresholds + 1) * sizeof(void *));
    layout.moves = room(base, &used, moves * sizeof(i64));
    s = in;
  }
  s->planes = layout.planes;
  s->mixed = layout.mixed;
  s->reached = layout.reached;
  s->right = layout.right;
  s->acc = layout.acc;
  s->batch = layout.batch;
  s->moves = layout.moves;
  s->program = layout.program;
  s->place = layout.place;
  for (int b = 0; b < LEVELS / 4; b++) s->least[b][0] = all(~0ull);
  for (u32 u = 0; u < 64 * LISTED; u++) s->place_in_list[u] = (u16)place_of(u);
  for (i64 g = 0; g < job->groups && !*job->stop; g += CHUNK)
    chunk(job, job->first + g, job->groups - g < CHUNK ? job->groups - g : CHUNK, s);
  for (i32 j = 0; j < job->attributes; j++) support(job, job->attribute + j);
  free(memory);
  return 0;
}

/* The values of users first … first + users - 1 of a synthetic attribute, of 8 or 16 bits; `first` is a multiple of 4. */
void rsfd_draw(u64 seed, u64 attribute, u64 k, const u64 *thresholds, u64 first, i64 users, void *out) {
  for (i64 start = 0; start < users; start += 4 * W) {
    V words[4];
    draw_any(seed, DATA, 0, stepping(1 + first / 4 + (u64)start / 4, 1), all(attribute), words);
    for (i64 u = 0; u < 4 * W && start + u < users; u++) {
      const u64 draw = words[u % 4][u / 4] >> 32;
      const u32 v = thresholds ? reached_of(thresholds, (u32)k - 1, draw) : (u32)(draw * k >> 32);
      if (k > 256) ((u16 *)out)[start + u] = (u16)v;
      else ((u8 *)out)[start + u] = (u8)v;
    }
  }
}

/* What this build was made for. */
const char *rsfd_build(void) {
#if AVX512 && defined(__AVX512IFMA__) && defined(__AVX512VPOPCNTDQ__)
  return "512 bits (AVX-512 with IFMA and VPOPCNTDQ)";
#elif AVX512
  return "512 bits (AVX-512)";
#elif AVX2
  return "256 bits (AVX2)";
#else
  return "128 bits (plain C)";
#endif
}
