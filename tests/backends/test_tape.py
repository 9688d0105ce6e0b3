"""Known answers first: the stream is a contract."""

import numpy as np
import pytest
from stats import check_uniform

from gpu_rsfd import tape as tape_module
from gpu_rsfd.tape import ASSIGN, BITS, DATA, LEVELS, VALUE, Tape, scale

MASK = 2**64 - 1


def philox4x64(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x64-10 from its definition (Salmon et al. 2011), independent of NumPy."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = [(b >> 64) ^ c[1] ^ k[0], b & MASK, (a >> 64) ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + 0x9E3779B97F4A7C15) & MASK, (k[1] + 0xBB67AE8584CAA73B) & MASK]
    return c


def contract_word(seed: int, stream: int, column: int, repetition: int, i: int) -> int:
    return philox4x64([1 + i // 4, column, repetition, 0], [seed, stream])[i % 4]


def test_philox_known_answers():
    """The vectors published with Random123 (kat_vectors, philox4x64-10)."""
    assert philox4x64([0] * 4, [0] * 2) == [
        0x16554D9ECA36314C,
        0xDB20FE9D672D0FDC,
        0xD7E772CEE186176B,
        0x7E68B68AEC7BA23B,
    ]
    assert philox4x64([MASK] * 4, [MASK] * 2) == [
        0x87B092C3013FE90B,
        0x438C3C67BE8D0224,
        0x9CC7D7C69CD777B6,
        0xA09CAEBF594F0BA0,
    ]


def test_stream_known_answers():
    """Stream version 1, frozen: a change here is a new STREAM_VERSION."""
    assert tape_module.STREAM_VERSION == 1
    tape = Tape(2026)
    assert tape.words(ASSIGN, 0, 57, 0, 2).tolist() == KNOWN["assign"]
    assert tape.words(VALUE, 3, 0, 4, 6).tolist() == KNOWN["value"]
    assert tape.words(BITS, 99, 1, 24, 26).tolist() == KNOWN["bits"]
    assert tape.words(DATA, 1, 0, 0, 2).tolist() == KNOWN["data"]


KNOWN = {  # made with `philox4x64` above, and frozen
    "assign": [0xC286816EC4F41E31, 0xAB732DBC1E8BCE87],
    "value": [0x185286085FCAC955, 0x8A6D299DE8A21093],
    "bits": [0x1662AB85B7262E82, 0xF9F854D61B60C7EA],
    "data": [0xF70BC42E40E66EB7, 0xF39F4C0E554D4238],
}


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
@pytest.mark.parametrize("start", [0, 1, 3, 4, 63, 64, 1001])
def test_words_are_addressed_by_meaning(seed, start):
    got = Tape(seed).words(BITS, 12, 34, start, start + 9)
    assert got.tolist() == [contract_word(seed, BITS, 12, 34, i) for i in range(start, start + 9)]


def test_words_are_numpys_philox():
    expected = np.random.Philox(key=[5, VALUE], counter=[0, 7, 11, 0]).random_raw(20_000)  # short and long runs
    assert np.array_equal(Tape(5).value(7, 11, 0, 1000), expected[:1000])
    assert np.array_equal(Tape(5).value(7, 11, 0, 20_000), expected)
    assert np.array_equal(Tape(5).value(7, 11, 201, 20_000), expected[201:])


def test_uniforms_put_the_digits_together():
    start, stop, column, repetition = 60, 135, 4, 2
    u = Tape(9).uniforms(column, repetition, start, stop)
    for user in (60, 63, 64, 134):
        digits = [
            contract_word(9, BITS, column, repetition, user // 64 * 24 + level) >> user % 64 & 1 for level in range(24)
        ]
        assert u[user - start] == sum(digit << level for level, digit in enumerate(digits))
    assert u.max() < 2**LEVELS


@pytest.mark.parametrize("k", [2, 3, 10, 255, 256, 257, 65_535])
def test_scale_is_the_contracts_formula(k):
    words = Tape(1).words(VALUE, 0, 0, 0, 500)
    assert scale(words, k).tolist() == [((int(w) >> 32) * k) >> 32 for w in words]


def test_draws_are_uniform():
    tape = Tape(3)
    check_uniform(np.bincount(tape.assigned("uniform", 0, 90_000, 9, 0, 90_000), minlength=9), "sampled attribute")
    check_uniform(np.bincount(scale(tape.value(1, 0, 0, 90_000), 33), minlength=33), "uniform value")
    check_uniform(np.bincount(tape.uniforms(5, 0, 0, 90_000) >> 18, minlength=64), "top of U")


def test_uniformity_check_can_fail():
    skewed = np.bincount(Tape(3).assigned("uniform", 0, 90_000, 9, 0, 90_000), minlength=9) * np.array(
        [1.1] + [1.0] * 8
    )
    with pytest.raises(AssertionError, match="chi2"):
        check_uniform(skewed, "skewed")
