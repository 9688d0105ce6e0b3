"""Balanced assignment of few users: quick, and the very permutation that walking the cycles step by step gives."""

import numpy as np
import pytest

from gpu_rsfd import tape
from gpu_rsfd.tape import BALANCE, BALANCE_ROUNDS, Tape


def walked_step_by_step(seed, repetition, n):
    """docs/stream.md, "Balanced assignment": the network applied again and again to those still outside."""
    *keys, shift = Tape(seed).words(BALANCE, 0, repetition, 0, BALANCE_ROUNDS + 1)
    bits = max(8, (n - 1).bit_length())
    low = bits // 2
    masks = np.uint64((1 << bits - low) - 1), np.uint64((1 << low) - 1)

    def network(x):
        sides = [x >> np.uint64(low), x & masks[1]]
        for i, key in enumerate(keys):
            sides[i % 2] = sides[i % 2] ^ (tape._round(sides[1 - i % 2], key) & masks[i % 2])
        return sides[0] << np.uint64(low) | sides[1]

    x = network(np.arange(n, dtype=np.uint64))
    while (outside := x >= np.uint64(n)).any():
        x[outside] = network(x[outside])
    return (x + np.uint64((int(shift) >> 32) * n >> 32)) % np.uint64(n)


@pytest.mark.slow
def test_every_small_number_of_users_has_its_old_positions():
    for n in range(1, 301):
        for seed, repetition in ((0, 0), (5, 1), (2026, 57)):
            expected = walked_step_by_step(seed, repetition, n)
            assert np.array_equal(Tape(seed).positions(repetition, n, 0, n), expected), (n, seed, repetition)
            part = Tape(seed).positions(repetition, n, n // 3, n - n // 4)
            assert np.array_equal(part, expected[n // 3 : n - n // 4]), (n, seed, repetition)


@pytest.mark.parametrize("n", [1, 2, 100, 255, 256])
def test_the_network_is_applied_once(n, monkeypatch):
    """What took the time: with one user the walk went round the network a hundred times and more."""
    rounds = []
    mix = tape._round
    monkeypatch.setattr(tape, "_round", lambda x, key: rounds.append(len(x)) or mix(x, key))
    Tape(3).positions(0, n, 0, n)
    assert len(rounds) == BALANCE_ROUNDS
