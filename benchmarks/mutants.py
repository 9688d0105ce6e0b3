"""Mutants of the CUDA or the native backend: each is one small mistake.  Tests that let one pass are not good enough.

    python benchmarks/mutants.py [--native] [--jobs N] [--only TEXT] [--skip N]      (pip install -e ".[test]"; g++)

Each mutant is made in a copy of the project, and the tests of the backend are run on it, the quick ones first, up
to the first that fails.  Prints how many mutants were made, what found each of them, and those that nobody found; exit
code 1 if there are any.  Mutants that do not compile are not counted.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CUDA, NATIVE = "gpu_rsfd/backends/cuda", "gpu_rsfd/backends/native"
# Tests that make mutants themselves look for the original text.
DESELECTED = "not mutant and not sanitize and not caught and not sabotaged and not can_fail and not barriers"
SHAPES = "every_shape and (63-3 or 65-32 or 200-63 or 401-5 or 402-6 or 333-4 or 500-6 or 131-5000 or 4097)"
STAGES = (  # name, tests, which of them
    ("shapes", ["test_cuda_kernels"], SHAPES, ""),
    ("host", ["test_cuda_passes", "test_cuda_machine", "test_cuda_host"], DESELECTED, "not slow"),
    ("source", ["test_cuda_backend", "test_cuda_kernels"], DESELECTED, ""),
    ("ptx", ["test_cuda_ptx", "test_cuda_host"], DESELECTED, ""),
    ("binary", ["test_cuda_compile"], DESELECTED, ""),
    ("contract", ["test_contract"], "does_not_know", ""),
    ("doctor", ["../project/test_doctor"], DESELECTED.replace(" and not sabotaged", ""), ""),
)
NATIVE_STAGES = (
    ("native", ["test_native", "test_native_build"], DESELECTED, "not slow"),
    ("widths", ["test_native"], "every_width or nothing_undefined", ""),
)
SECONDS = 400  # a test that a mutant keeps waiting has found it


@dataclass(frozen=True)
class Mutant:
    file: str
    old: str
    new: str
    which: int = 0  # occurrence of `old`
    first: str = "host"  # the stage that is likely to find it; kernels: "shapes"
    room: str = CUDA
    also: tuple[str, str] | None = None  # a second change, without which the first makes no sense

    def apply(self, folder: Path) -> None:
        path = folder / self.room / self.file
        path.write_text(self.text(path.read_text(encoding="utf-8")), encoding="utf-8")

    def text(self, text: str) -> str:
        """The file with the mistake in it."""
        for old, new, which in ((self.old, self.new, self.which), *((*change, 0) for change in [self.also] if change)):
            parts = text.split(old)
            if len(parts) <= which + 1:
                raise SystemExit(f"{self.file} has no {old!r} number {which}: this list is out of date")
            text = old.join(parts[: which + 1]) + new + old.join(parts[which + 1 :])
        return text

    def __str__(self) -> str:
        number = f" ({self.which + 1})" if self.which else ""
        return f"{self.file}: {self.old} -> {self.new or 'nothing'}{number}"


def kernel(file: str, old: str, new: str, which: int = 0, first: str = "shapes") -> Mutant:
    return Mutant(f"kernels/{file}", old, new, which, first)


def ptx(file: str, old: str, new: str, which: int = 0) -> Mutant:
    """A race, an access outside an array, or inline assembly."""
    return kernel(file, old, new, which, "ptx")


KNOWN = [  # each of these once passed every test
    kernel("users.cu", "DATA, attribute, 0, (first_group + group)", "DATA, attribute, 0, (group)"),
    kernel("users.cu", "user = (first_group + group) * LANES", "user = (u64)group * LANES"),
    kernel("values.cu", "block = (first_group + group)", "block = (u64)(group)"),
    Mutant("runner.py", "dataset.column(a.plan.index, first, last)", "dataset.column(a.plan.index, 0, last - first)"),
    Mutant("runner.py", "if self.d > 1 else part.users", "if self.d > 1 else self.n"),
    ptx("unary.cu", "if (sum) atomicAdd(&counts_cells_repetitions_k[(u64)i * columns + column], sum)",
           "if (sum) counts_cells_repetitions_k[(u64)i * columns + column] += sum"),
    ptx("values.cu", "atomicAdd(&global[(u64)row * stride + message], (u64)(long long)change)",
           "global[(u64)row * stride + message] += (u64)(long long)change"),
    ptx("values.cu", "atomicAdd(&bins.global[(u64)(i / messages) * bins.stride + i % messages],",
           "(bins.global[(u64)(i / messages) * bins.stride + i % messages] +="),
    ptx("unary.cu", "atomicAdd(ones + t / STEP * 64, sum)", "ones[t / STEP * 64] += sum"),
    ptx("unary.cu", "atomicAdd(ones + t / STEP * 64 + 32, random_sum)", "ones[t / STEP * 64 + 32] += random_sum"),
    ptx("unary.cu", '"r"(a), "r"(b), "r"(c)', '"r"(b), "r"(a), "r"(c)'),
    ptx("unary.cu", '"r"(a), "r"(b), "r"(c)', '"r"(a), "r"(c), "r"(b)'),
    kernel("planes.cuh", "Planes<16>", "Planes<12>"),
    Mutant("runner.py", "words = MAX_INDEX // max(self", "words = 2**62 // max(self"),
    Mutant("runner.py", "MAX_INDEX // words, share", "2**62, share"),
    Mutant("runner.py", "min(words, MAX_BLOCKS //", "min(words, 2**62 //"),
    Mutant("runner.py", "min(MAX_BLOCKS // blocks,", "min("),
    Mutant("runner.py", "self._errors = cuda.runtime.CUDARuntimeError, ", "self._errors = "),
    Mutant("runner.py", "self.groups if random is not None else 0)", "self.groups)", first="ptx"),
    Mutant("runner.py", "U64(last - first)", "U64(job.n)", first="ptx"),
    Mutant("runner.py", " + pool.free_bytes()", ""),
    Mutant("runner.py", "get_default_memory_pool().free_all_blocks()", "get_default_memory_pool()"),
    kernel("users.cu", "n <= 1ull << 32 ? ((c.w[0] >> 32) * n) >> 32 : c.w[0] % n", "((c.w[0] >> 32) * n) >> 32"),
    kernel("users.cu", "n <= 1ull << 32 ? ((c.w[0] >> 32) * n) >> 32 : c.w[0] % n", "c.w[0] % n"),
    kernel("unary.cu", "repetition, (first_group + group) * (LEVELS / 4)",
           "repetition, (u32)(first_group + group) * (LEVELS / 4)"),
    kernel("values.cu", "h < keeps[last - 1]", "h <= keeps[last - 1]"),
    kernel("values.cu", "h >= keeps[step]", "h > keeps[step]"),
    kernel("tape.cuh", "thresholds[middle] <= draw", "thresholds[middle] < draw"),
]  # fmt: skip

MORE = [
    kernel("tape.cuh", "round < 10", "round < 9"),
    kernel("tape.cuh", "c0 = block + 1", "c0 = block"),
    kernel("tape.cuh", "c1 = column, c2 = repetition", "c1 = repetition, c2 = column"),
    kernel("tape.cuh", "((word >> 32) * k) >> 32", "((word & 0xFFFFFFFFu) * k) >> 32"),
    kernel("tape.cuh", "u32 low = 0, high = count;", "u32 low = 0, high = count - 1;"),
    kernel("tape.cuh", "low = middle + 1", "low = middle + 2"),
    kernel("planes.cuh", "if (digits <= 6)", "if (digits <= 7)"),
    kernel("planes.cuh", "rest(~value)", "rest(value)"),
    kernel("planes.cuh", "b < digits; b++) lanes", "b + 1 < digits; b++) lanes"),
    kernel("planes.cuh", "if (b < digits) out[", "if (b <= digits) out["),
    kernel("users.cu", "group * LANES + lane + i < users", "group * LANES + lane + i + 1 < users"),
    ptx("users.cu", "group * LANES + lane + i < users", "group * LANES + lane + i <= users"),
    kernel("users.cu", "return x >= n ? x - n : x;", "return x > n ? x - n : x;"),
    kernel("users.cu", "} while (x >= n);", "} while (false);"),
    kernel("users.cu", "i < BALANCE_ROUNDS; i += 2", "i < BALANCE_ROUNDS - 2; i += 2"),
    kernel("users.cu", ">> 37", ">> 36"),
    kernel("users.cu", "low = bits / 2", "low = (bits + 1) / 2"),
    kernel("users.cu", "keys[4 + i] = b.w[i]", "keys[4 + i] = a.w[i]"),
    kernel("users.cu", "x += shift;", ""),
    kernel("users.cu", "(u64)row * digits * groups + group;", "(u64)row * groups + group;"),
    kernel("users.cu", "first_repetition + row * repetition_step", "first_repetition + row"),
    kernel("users.cu", "ASSIGN, 0, repetition, (first_group + group)", "ASSIGN, 0, repetition, (u64)(group)"),
    kernel("users.cu", "group + 1 < groups ? ~0ull", "group < groups ? ~0ull"),
    ptx("users.cu", "atomicAdd(&total, sum)", "total += sum"),
    ptx("users.cu", "if (threadIdx.x == 0) total = 0;", ""),
    kernel("values.cu", "bins.add(0, own ? y : fake, 1)", "bins.add(0, y, 1)"),
    kernel("values.cu", "if (own) bins.add(1, y, 1)", "bins.add(1, y, 1)"),
    kernel("values.cu", "bins.add(2 + step, y, -1)", "bins.add(2 + step, fake, -1)"),
    kernel("values.cu", "y ^ ((x ^ y) & mine)", "y ^ ((x ^ y) & ~mine)"),
    kernel("values.cu", "(kind || own)", "(own)"),
    kernel("values.cu", "if (x == messages) {", "if (kind == 0) {"),
    kernel("values.cu", "bins.global[(u64)(i / messages) * bins.stride + i % messages]", "bins.global[i]"),
    kernel("values.cu", "first_repetition + row * repetition_step", "first_repetition + row"),
    kernel("values.cu", "group + 1 < groups ? ~0ull", "group < groups ? ~0ull"),
    kernel("values.cu", "bins_rows_repetitions_messages + (u64)row * messages", "bins_rows_repetitions_messages"),
    kernel("values.cu", "(u64)row * digits + b", "(u64)row + b"),
    kernel("values.cu", "shared_bins[i] = 0", "shared_bins[i] = 1"),
    kernel("values.cu", "(__popc(message & row) & 1) * pivot", "(__popc(message & row) & 1)"),
    kernel("values.cu", "(i ^ low) << 1 | low", "i << 1"),
    kernel("values.cu", "(u64)value * size + i", "(u64)value + i"),
    ptx("values.cu", "__syncthreads();", ";"),
    ptx("values.cu", "__syncthreads();", ";", 1),
    kernel("unary.cu", "half = ~words.w[3]", "half = words.w[3]"),
    kernel("unary.cu", "others = all ^ encode", "others = all"),
    kernel("unary.cu", "stray = x & absent", "stray = x & all"),
    kernel("unary.cu", "PAIRED ? ~above[h][t + STEP - 1]", "PAIRED ? ~above[h][t]"),
    kernel("unary.cu", "row * encoded_stride + group", "group"),
    kernel("unary.cu", "offset + v, repetition", "v, repetition"),
    kernel("unary.cu", "first_repetition + row * repetition_step", "first_repetition + row"),
    kernel("unary.cu", "(u64)i * columns + column", "(u64)i * columns"),
    kernel("unary.cu", "group + 1 < groups ? ~0ull", "group < groups ? ~0ull"),
    kernel("unary.cu", "bank < 32; bank++", "bank < 31; bank++"),
    kernel("unary.cu", "row * attribute_digits * groups", "row * groups"),
    ptx("unary.cu", "__syncthreads();", ";"),
    ptx("unary.cu", "__syncthreads();", ";", 1),
    kernel("unary.cu", "(A & B) | (~C & (A | B))", "(A & B) | (C & (A | B))"),
    kernel("unary.cu", "partial_slot, half_of(absent, h)", "own_slot, half_of(absent, h)"),
    kernel("unary.cu", "__CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200", "__CUDA_ARCH__ == 1000", first="binary"),
    Mutant("runner.py", "(1 << tail) - 1 if tail", "(1 << tail) if tail"),
    Mutant("runner.py", "        self._turn ^= 1\n", "        self._turn = 0\n"),
    Mutant("runner.py", "        self.copied.synchronize()\n", ""),
    Mutant("runner.py", "        out.data.memset_async(0, out.nbytes)", "        pass"),
    Mutant("runner.py", "part.first_user > 0", "False"),
    Mutant("runner.py", "self._drop_values()\n        return False", "pass\n        return False"),
    Mutant("runner.py", 'rows * self.users, rows * tiles', 'rows * self.users, rows'),
    Mutant("runner.py", "max(8, digits_of(job.n))", "digits_of(job.n)"),
    Mutant("runner.py", "                self._finish()\n", "                pass\n"),
    Mutant("runner.py", " + 2 * job.words_per_repetition\n                        most", "\n" + 24 * " " + "most"),
    Mutant("runner.py", "len(encoded) * size : (len(encoded) + 1) * size", "0 : size"),
    Mutant("runner.py", "cells * 4 if cells * 4 <= SHARED_BYTES else 0", "cells * 4"),
    Mutant("runner.py", "U64(job.repetitions.step)", "U64(1)"),
    Mutant("runner.py", "first_line(error)", "str(error).splitlines()[0]"),
    Mutant("runner.py", "first = launched.last\n", "first, launched = launched.last, (yield launched.arrived())\n"),
    Mutant("runner.py", "            self._held = weakref.ref(job.dataset), values\n", "            pass\n"),
    Mutant("runner.py", " cuda.driver.CUDADriverError,", ""),
    Mutant("runner.py", ", cuda.compiler.CompileException", ""),
    Mutant("runner.py", "cp.empty(rows * job.encoded_digits *", "cp.empty(rows *"),
    Mutant("runner.py", "counts = max(1, BATCH_WORDS // self.words_per_repetition)", "counts = 2**62"),
    Mutant("runner.py", "                users.drop_scratch()\n", "                pass\n"),
    Mutant("passes.py", "*range(3, ends), *range(ends + 1, self.rows)", "*range(3, self.rows),"),
    Mutant("passes.py", "+ (r.unsampled is Unsampled.FAKE)", ""),
    Mutant("passes.py", "(thresholds - 1) >>", "thresholds >>"),
    Mutant("passes.py", "seed + i * _WEYL", "seed"),
    Mutant("passes.py", "int(r.unsampled is Unsampled.NOTHING)", "0"),
    Mutant("passes.py", "len(self.mine) + self.all.index(t)", "self.all.index(t)"),
    Mutant("passes.py", "slot in self.slots and r.prior == self.prior", "slot in self.slots"),
    Mutant("passes.py", "                out[recipes] += rows[kept]\n", ""),
    Mutant("passes.py", "step if count > 1 else 1", "step"),
    Mutant("passes.py", "step > 0 and pairs", "pairs"),
    Mutant("passes.py", "            at += v.rows\n        for p in", "        for p in"),
    Mutant("devices.py", "(range(count) if wanted is None else wanted)", "range(count)"),
    Mutant("devices.py", "or [type(error).__name__]", ""),
    Mutant("backend.py", "if ended.is_set():", "if False:"),
    Mutant("runner.py", "users = None\n            self._drop_values()\n", "self._drop_values()\n"),
    Mutant("backend.py", "            ended.set()", "            pass"),
    Mutant("backend.py", "-(-(last - first) // len(runners))", "(last - first)", first="source"),
    Mutant("backend.py", "                            future.result()\n", ""),
    Mutant("backend.py", "runner.limits = Limits()", "pass"),
    Mutant("backend.py", "known[0] is not plan", "False"),
]  # fmt: skip


def native(old: str, new: str, which: int = 0, first: str = "native", file: str = "counts.c") -> Mutant:
    return Mutant(file, old, new, which, first, NATIVE)


def wide(old: str, new: str, which: int = 0) -> Mutant:
    """In code for AVX-512 or for no vectors at all."""
    return native(old, new, which, "widths")


NATIVE_MUTANTS = [
    native("place[t].partial ? equal & mine : equal", "equal & mine"),
    native("place[t].partial ? equal & mine : equal", "all(0)"),
    native("r < 10; r++) philox_round", "r < 9; r++) philox_round"),
    native("r = 3; r < 10", "r = 3; r < 9"),
    native("M1 * repetition ^ (seed + W0)", "(seed + W0)"),
    native("(Start){low2 ^ (stream + W1)", "(Start){low2 ^ stream"),
    native("high1(repetition, M1) ^ column", "column"),
    native("t = p10 + (p00 >> 32)", "t = p10"),
    native("(t >> 32) + (w >> 32)", "(t >> 32)"),
    wide("_mm512_srli_epi64(middle, 12)", "_mm512_srli_epi64(middle, 11)"),
    wide("_mm512_madd52hi_epu64(top, x1, m0)", "top"),
    wide("_mm512_slli_epi64(middle, 52)", "_mm512_slli_epi64(middle, 51)"),
    wide("LOGIC(0x60", "LOGIC(0x90"),
    wide("LOGIC(0x96", "LOGIC(0x69"),
    wide("LOGIC(0xCA", "LOGIC(0xAC"),
    wide("LOGIC(0x40", "LOGIC(0x20"),
    wide("? 0xEA", "? 0xA8"),
    wide("? 0x40", "? 0x10"),
    wide("(u64)_mm512_test_epi16_mask((__m512i)codes[1], bit) << 32", "(u64)0"),
    wide("four * 0x0001000200040008u >> 48", "four * 0x0001000200040008u >> 47"),
    native("(u64)(q >> 64) ^ s[1][l] ^ k0", "(u64)(q >> 64) ^ k0", first="widths"),
    native("stepping(1 + block + W * (part + i), 1)", "stepping(1 + block + W * part, 1)"),
    wide("LOGIC(0xF8", "LOGIC(0xEA"),
    wide("LOGIC(0xF8", "LOGIC(0xEA", 1),
    native("more = high[v / 4 + 1]", "more = high[v / 4]"),
    native("at[b][1] | (at[b][0] & x)", "at[b][1] | at[b][0]"),
    native("equal & at[b][0] & ~at[b][1]", "equal & at[b][1] & ~at[b][0]"),
    native("% (1 << (LEVELS - FIRST)) != 0)", "% (1 << (LEVELS - FIRST)) > 127)"),
    native("% (1 << (LEVELS - FIRST)) != 0)", "% (1 << (LEVELS - FIRST)) == 0)"),
    native("s->least[b][0] = all(~0ull)", "s->least[b][0] = all(0)"),
    native("s->pending_words[l][*pending] = w[i][l][lane]", "s->pending_words[l][*pending] = w[i][l][0]"),
    native("srli_epi16)(y, 4)", "srli_epi16)(y, 3)"),
    native("x[i] & ~digit", "x[i]"),
    wide("digit = load(planes + W * i)", "digit = load(planes)"),
    native("V sum = acc[j]", "V sum = all(0)"),
    native(">> 37", ">> 36"),
    native("while ((n - 1) >> bits) bits++", "while (n >> bits) bits++"),
    native("int bits = 8;", "int bits = 1;"),
    native("n <= 1ull << 32 ? (u64)((words[8] >> 32) * (u128)n >> 32) : words[8] % n", "words[8] % n"),
    native("n <= 1ull << 32 ? (u64)((words[8] >> 32) * (u128)n >> 32) : words[8] % n",
           "(u64)((words[8] >> 32) * (u128)n >> 32)"),
    native("y - ((V)(y >= p->n) & p->n)", "y - ((V)(y > p->n) & p->n)"),
    native("still += left[i] >= p->n", "still += left[i] > p->n"),
    native("at[still] = at[i];", "at[still] = at[0];"),
    native("x[at[i]] = left[i];", ""),
    native("(u8)(i + __builtin_ctz(who))", "(u8)__builtin_ctz(who)"),
    native("SELECT((V)(user < job->n), user, all(0))", "user"),
    native("thresholds[middle] <= draw", "thresholds[middle] < draw"),
    native("h >= keeps[step]) step++", "h > keeps[step]) step++"),
    wide("step += h >= keeps[step]", "step += h > keeps[step]"),
    wide("(u16)place_of(u)", "(u16)u"),
    native("p->least + 256, to", "p->least, to"),
    native("values ? v : message_of", "1 ? v : message_of"),
    wide("if (m.a->wide) MOVE_EACH(1, 1, 1)", "if (m.a->wide) MOVE_EACH(1, 1, 0)"),
    wide("if (span > 1) MOVE_EACH", "if (span > 2) MOVE_EACH"),
    wide("if (m.p->size) MOVE_EACH(1, 0,", "if (m.p->size) MOVE_EACH(1, 1,"),
    native("(i ^ low) << 1 | low", "(i ^ low) << 1"),
    native("__builtin_popcount(m & row) & 1) * pivot", "__builtin_popcount(m & row) & 1)"),
    native("bins[m + half] = a - b", "bins[m + half] = b - a"),
    native("p->size ? s->fake : s->mixed", "s->mixed"),
    native("if (shared) memcpy(s->words", "if (f) memcpy(s->words"),
    native("(drawn[4 * part + j] & 0xffffffffu) >= all", "(drawn[4 * part + j] & 0xffffffffu) > all"),
    native("< all(largest)", "< all(largest / 2)"),
    native("may_keep & s->valid[g]", "may_keep", first="widths"),
    native("p->keeps[p->mine_keeps + p->all_keeps] : 0", "p->keeps[p->mine_keeps + 1] : 0"),
    native("histogram(s->y, a->digits, (u32)k, here", "histogram(s->x, a->digits, (u32)k, here"),
    wide("words + g % LISTED * 4 * PARTS", "words"),
    wide("low(y, m >> 12)", "low(y, m >> 13)"),
    wide("(m & 4095) - (m >> 52 << 52)", "0 - (m >> 52 << 52)"),
    wide("(m & 4095) - (m >> 52 << 52)", "(m & 4095)"),
    wide("v_times_a = low(a, m >> 52)", "v_times_a = low(a, m >> 53)"),
    wide("if (exact) *program++ = &&exact;", ""),
    wide("exact ? 0 : a->partial[t] ? 5 : 4", "exact ? 0 : 5"),
    wide("e = mine; STEP(t, x, e, w)", "e = all(0); STEP(t, x, e, w)"),
    wide("undecided |= e; NEXT", "NEXT"),
    wide("= list(who, (int)back * 64,", "= list(who, 0,"),
    wide("(u32)(who >> half), users", "(u32)who, users"),
    wide("(short)(first + half)", "(short)first"),
    wide("back < LISTED - 1 && g < groups - 1", "back < LISTED - 1"),
    wide("first - job->held + g - back", "first - job->held + g"),
    wide("listed[everyone] = 0;", ""),
    wide("run > span[i > p->mine_keeps]", "0"),
    native("words + g % TOGETHER * PARTS", "words", first="widths"),
    native("step != p->mine_keeps + 1 ? change[-k] : 0", "1 ? change[-k] : 0"),
    native("step <= p->mine_keeps; step++", "step < p->mine_keeps; step++"),
    native("prior->thresholds ? s->mine[g] : 0;", "prior->thresholds ? ~0ull : 0;"),
    native("(s->y[b * CHUNK + g] ^ z) & s->mine[g]", "(s->y[b * CHUNK + g] ^ z) & 0"),
    native("(s->x[b * CHUNK + g] ^ z) & s->mine[g]", "(s->x[b * CHUNK + g] ^ z)"),
    native("counter[i] = 1 + 6 * (u64)(first + g)", "counter[i] = 1 + 6 * (u64)g"),
    native("s->right, 1, LEVELS)", "s->right, 1, FIRST)"),
    native("w + LEVELS - FIRST, mine", "w, mine"),
    wide("reached[t * step] = x", "reached[t] = x"),
    native("among = run.kind == NOTHING ? mine : all(~0ull)", "among = all(~0ull)"),
    native("if (pending) settle(", "if (0) settle("),
    native("if (o + i == octets - 1)", "if (0)"),
    native("? reporters : octets * W * 64", "? octets * W * 64 : octets * W * 64"),
    native("a->offset + (u64)v);", "(u64)v);"),
    native("column[i] = a->offset + v", "column[i] = v"),
    native("wanted != lowest", "lowest < 0"),
    native("(u64)first * 16 + W * o + 1", "(u64)W * o + 1"),
    native("(u64)(first + W * o) * 6 + b + 1", "(u64)(W * o) * 6 + b + 1"),
    native("(first - job->held + g) * 64 + u", "(first + g) * 64 + u"),
    native("user = (first - job->held + g) * 64", "user = (first + g) * 64"),
    native("job->sampled[row * job->attributes + j]", "job->sampled[row * job->attributes + a->index]", first="widths"),
    native("stepping(1 + first / 4 + (u64)start / 4, 1)", "stepping(1 + (u64)start / 4, 1)"),
    native("if (k > 256) ((u16", "if (k > 255) ((u16", first="widths"),
    native("&& start + u < users", "", first="widths"),
    native("for (i64 u = 0; u < users; u++) wide", "for (i64 u = 0; u < 64; u++) wide", first="widths"),
    native("(size_t)(2 * (p->mine_keeps + p->all_keeps + 2) + 2)",
           "(size_t)(2 * (p->mine_keeps + p->all_keeps + 2))", first="widths"),
    native("t not in whole for t", "True for t", file="tables.py"),
    native("first + everyone.index(t)", "everyone.index(t)", file="tables.py"),
    native('upper, "right") + first', 'upper, "right")', file="tables.py"),
    native("if not stat.S_ISREG(", "if False and not stat.S_ISREG(", file="../../cache.py"),
    native("0 if sticky else OTHERS", "0", file="../../cache.py"),
    native("made.replace(path)", "made.rename(folder / 'counts.so')", file="../../cache.py"),
    native("*self.flags, self.macros", "*self.flags", file="build.py"),
    native("            stop[0] = 1\n", "", file="backend.py"),
    native("known[0] is dataset", "True", file="backend.py"),
    native("known[0] is not plan", "False", file="backend.py"),
    native("            if groups == everyone:\n", "            if True:\n", file="backend.py"),
]  # fmt: skip


def doctor(file: str, old: str, new: str) -> Mutant:
    return Mutant(file, old, new, first="doctor", room="gpu_rsfd")


HOST = [  # each of these once passed every test
    Mutant(
        "runner.py",
        "cuda.Device(self.device.index).synchronize()\n\n    def _short",
        "cuda.Device(0).synchronize()\n\n    def _short",
    ),
    Mutant(
        "runner.py",
        "    def _give_back(self) -> None:\n",
        "    def _give_back(self) -> None:\n        self._cp.cuda.Device(0).use()\n",
    ),
    Mutant("runner.py", "self.submit(self._give_back).result()", "self._give_back()"),
    Mutant(
        "backend.py",
        "        for runner in self._runners:\n            runner.close()",
        "        self._runners[0].close()",
    ),
    Mutant(
        "runner.py",
        "            launch()\n        finally",
        "            after.record()\n            launch()\n        except KeyError",
    ),
    Mutant(
        "runner.py",
        "            launch()\n        finally",
        "            launch()\n            before.record()\n        finally",
    ),
    Mutant("runner.py", "launched, following = following, None", "launched = following"),
    Mutant(
        "runner.py",
        "start, middle, first, last)\n            yield from self._users(job, middle, stop,",
        "middle, stop, first, last)\n            yield from self._users(job, start, middle,",
    ),
    Mutant(
        "runner.py",
        "weakref.ref(job.dataset), values",
        "id(job.dataset), values",
        also=("self._held[0]() is job.dataset", "self._held[0] == id(job.dataset)"),
    ),
    Mutant("runner.py", "self._free_words() and job.groups <= self._most_groups(job)", "self._free_words()"),
    Mutant("runner.py", "0 if type(dataset) is SyntheticDataset", "0 if isinstance(dataset, SyntheticDataset)"),
    Mutant(
        "runner.py",
        "        if type(dataset) is SyntheticDataset:",
        "        if isinstance(dataset, SyntheticDataset):",
    ),
    Mutant("backend.py", "plan.positions(part.users)", "plan.positions(dataset.n)"),
    Mutant("backend.py", "wait(waiting, return_when=FIRST_EXCEPTION)", "wait(waiting)"),
    Mutant("runner.py", "words = self._room *", "words = rows *"),
    Mutant("runner.py", "            users = None\n            self._drop_values()\n", "            users = None\n"),
    Mutant("runner.py", "self._free_words() - 2 * job.words_per_repetition", "self._free_words()"),
    Mutant("runner.py", "(job.words_per_group + job.codes_per_group +", "(job.words_per_group +"),
    Mutant("runner.py", "* job.groups + counts", "* job.groups"),
    Mutant("runner.py", "words_per_group_and_repetition * job.groups +", "words_per_group_and_repetition +"),
    # devices, threads, processes and what fails
    Mutant(
        "runner.py",
        "            self._cp.cuda.Device(self.device.index).use()\n            return do(*args)",
        "            with self._cp.cuda.Device(self.device.index):\n                return do(*args)",
    ),
    Mutant("runner.py", "            self._cp.cuda.Device(self.device.index).use()\n", ""),
    Mutant("runner.py", "ThreadPoolExecutor(1, thread", "ThreadPoolExecutor(2, thread"),
    Mutant("backend.py", "Job(plan, known[1],", "Job(plan, self._known[1],"),
    Mutant("backend.py", "if self._process != os.getpid():", "if False:"),
    Mutant("backend.py", "            check_noises(plan, self.name, self.noises)\n", "", first="contract"),
    Mutant("backend.py", "                wait(given)\n", ""),
    Mutant(
        "devices.py",
        "        cupy.cuda.Device(index).use()\n",
        "        cupy.cuda.Device(index).__enter__()\n",
        also=(
            '    except Exception as error:\n        return f"CUDA device {index} does',
            "        cupy.cuda.Device(0).use()\n"
            '    except Exception as error:\n        return f"CUDA device {index} does',
        ),
    ),
    Mutant(
        "devices.py",
        "        kernel((1,), (3,), (words,))\n        if words.get().tolist() != [1, 3, 5]",
        "        if words.get().tolist() != [0, 1, 2]",
    ),
    Mutant("devices.py", "os.register_at_fork(after_in_child=forget)", "pass"),
    Mutant("devices.py", "older if int(capability) < min(known) else newer", "older"),
    Mutant("devices.py", "< runtime // 1000 * 1000", "< 0"),
    Mutant("devices.py", "bool(limit) or wsl()", "bool(limit)"),
    Mutant("devices.py", "bool(limit) or wsl()", "wsl()"),
    Mutant("devices.py", '        os.environ["CUPY_CACHE_IN_MEMORY"] = "1"\n', ""),
    Mutant("devices.py", "        found = kernels()\n    keep", "        raise\n    keep"),
    Mutant("devices.py", "    keep(found)\n", ""),
    Mutant("runner.py", "            keep([self.events, self.watch])\n", ""),
    Mutant(
        "devices.py",
        "    array = cupy.empty(values.shape, values.dtype)\n    array.set(values)\n",
        "    array = cupy.asarray(values)\n",
    ),
    Mutant("devices.py", "needs {runtime // 1000}.0", "needs {version(runtime)}"),
    Mutant("runner.py", "            traceback.clear_frames(error.__traceback__)  #", "            #"),
    Mutant("runner.py", "from error.with_traceback(None)", "from error"),
    Mutant("runner.py", ' or getattr(error, "status", None) == OUT_OF_MEMORY', ""),
    Mutant("backend.py", "if not runner.lost] or self._runners", "] or self._runners"),
    Mutant("backend.py", "advance(-sum(done))", "pass"),
    Mutant("runner.py", "        except self._errors as error:", "        except ZeroDivisionError as error:"),
    Mutant("runner.py", "        self._last = name\n", ""),
    Mutant("runner.py", "if self.device.time_limit else job.groups", "if False else job.groups"),
    Mutant(
        "runner.py",
        "min(job.most_groups(), self.limits.groups, max(1, soon))",
        "min(job.most_groups(), self.limits.groups)",
    ),
    Mutant("runner.py", "MAX_INDEX = 2**32 - 2**17", "MAX_INDEX = 2**32 - 1"),
    # sizes of kernels
    Mutant("passes.py", "if n >= needed)", "if n > needed)", first="shapes"),
    Mutant(
        "passes.py", "return 2 * self.thresholds // (1 + self.paired)", "return 2 * len(self.slots)", first="shapes"
    ),
    Mutant("kernels/__init__.py", '"PAIRED_BLOCKS" if paired else "PLAIN_BLOCKS"', '"PAIRED_BLOCKS"', first="binary"),
    Mutant("kernels/__init__.py", "2, 4, 6, 8, 10, 12, 13, 14, 16, 18)", "2, 6, 12, 18)"),
    # limits, times and what the doctor does with them
    Mutant("runner.py", "watch, self.watch = self.watch, None", "watch = self.watch"),
    Mutant("backend.py", ", self._told | {what}", ", self._told"),
    Mutant("backend.py", "found = probe()  # to say", "pass  # to say"),
    Mutant("runner.py", "found[name].items + items", "items"),
    Mutant("runner.py", "max(1, min(most, last - first))", "max(1, most)"),
    Mutant("runner.py", "job.most_repetitions(groups), self.limits", "self.limits"),
    Mutant("runner.py", "            self._room = rows\n", "            self._room = 2 * rows\n"),
    Mutant("runner.py", "sampled[here] = sampled[here] + found if add else found", "sampled[here] = found"),
    Mutant("runner.py", "get_default_pinned_memory_pool().free_all_blocks()", "get_default_pinned_memory_pool()"),
    Mutant("devices.py", "if words.get().tolist() != [1, 3, 5]:", "if False:"),
    Mutant("devices.py", "if 0 < driver < runtime", "if driver < runtime"),
    Mutant("devices.py", '    if "InitializationError" in str(error):', "    if False:"),
    Mutant("speed.py", "mine / rate if unary", "rate / mine if unary", first="doctor"),
    Mutant("speed.py", "    runner.launch(BARE, 0, blocks, args)  # compiles\n", "", first="doctor"),
    doctor("doctor.py", "for device in engine.devices)", "for device in engine.devices[:1])"),
    doctor("doctor.py", "            yield engine\n        else", "            pass\n        else"),
    doctor("doctor.py", "[*cases, *device_cases] if devices", "[*cases] if devices"),
    doctor("doctor.py", "times=2 if devices else 1", "times=1"),
    doctor("doctor.py", "range(repetitions))\n        took +=", "range(1))\n        took +="),
    doctor("backends/reference.py", "    for assignment in ASSIGNMENTS:", "    for assignment in ASSIGNMENTS[:1]:"),
    doctor(
        "backends/reference.py", "for time, ours in enumerate(tables[1:])", "for time, ours in enumerate(tables[1:2])"
    ),
]


def copied(folder: Path) -> Path:
    copy = folder / "project"
    for name in ("gpu_rsfd", "tests", "benchmarks", "scripts"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    return copy


def try_out(mutant: Mutant, libraries: str) -> tuple[str, str]:
    """The stage that found it and the test; "survived"; or "invalid": it does not compile.

    `libraries`: a folder for compiled kernels, which are the same for most mutants.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = copied(Path(temporary))
        mutant.apply(folder)
        environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": libraries}
        stages = NATIVE_STAGES if mutant.room == NATIVE else STAGES
        for stage, tests, selected, marked in sorted(stages, key=lambda stage: stage[0] != mutant.first):
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-x",
                "-q",
                "-p",
                "no:cacheprovider",
                "-k",
                selected,
                "-m",
                marked,
            ]
            files = [f"tests/backends/{test}.py" for test in tests]
            try:
                done = subprocess.run(
                    [*command, *files], cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS
                )
            except subprocess.TimeoutExpired:
                return stage, "it never ends"
            if done.returncode == 0:
                continue
            if done.returncode == 5:
                raise SystemExit(f"the stage {stage!r} has no tests: this file is out of date")
            if done.returncode < 0:
                return stage, "it crashes"
            broken = "g++ failed" if mutant.file.startswith("kernels/") else "SyntaxError"
            broken = "counts.c: error" if mutant.file.endswith(".c") else broken
            if done.returncode != 1 or broken in done.stdout:
                return "invalid", done.stdout[-2000:] + done.stderr[-500:]
            failed = re.findall(r"^FAILED \S*::(\S+)", done.stdout, re.M)
            return stage, failed[0] if failed else "?"
    return "survived", ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--native", action="store_true", help="of the native backend, not of CUDA")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="mutants with this in their description")
    parser.add_argument("--skip", type=int, default=0, help="leave out the first so many")
    options = parser.parse_args()
    every = NATIVE_MUTANTS if options.native else [*KNOWN, *MORE, *HOST]
    mutants = [m for m in every if options.only in str(m)][options.skip :]
    for mutant in mutants:  # before hours are spent
        mutant.text((ROOT / mutant.room / mutant.file).read_text(encoding="utf-8"))
    started = time.monotonic()
    found: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as libraries, ThreadPoolExecutor(options.jobs) as threads:
        compiled = Path(tempfile.gettempdir()) / f"gpu-rsfd-standin-{os.getuid()}"
        if compiled.exists():  # the kernels as they are, from the last time that the tests were run
            shutil.copytree(compiled, Path(libraries) / compiled.name)
        running = {threads.submit(try_out, mutant, libraries): mutant for mutant in mutants}
        for future in as_completed(running):
            verdict, detail = future.result()
            text = str(running[future]).replace("\n", " ")
            found.setdefault(verdict, []).append(text)
            print(f"{verdict:9} {text}   [{detail.splitlines()[-1] if detail else ''}]", flush=True)
    survivors, invalid = found.pop("survived", []), found.pop("invalid", [])
    killed = sum(map(len, found.values()))
    stages = ", ".join(f"{len(names)} by {stage}" for stage, names in found.items())
    print(f"\n{len(mutants) - len(invalid)} mutants, {killed} found ({stages}), {len(survivors)} survived", end="")
    print(f"; {len(invalid)} did not compile; {time.monotonic() - started:.0f} s")
    for text in survivors:
        print(f"  survived: {text}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
