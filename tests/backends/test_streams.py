"""Every stream of random words is one of those that tape.py names, and nothing else draws."""

import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd import tape
from gpu_rsfd.backends.exact.substreams import Streams
from gpu_rsfd.protocols.priors import Prior
from gpu_rsfd.theory import attacked

TAPE = (tape.DATA, tape.ASSIGN, tape.VALUE, tape.BITS, tape.BALANCE, tape.MEMO, tape.CHOICE, tape.FAKES)
SAMPLERS = [first + use for first in (tape.COUNTS, tape.MARGINALS) for use in range(4)]
STREAMS = (*TAPE, *SAMPLERS, tape.PRIORS, tape.DECISION)


@pytest.fixture
def used(monkeypatch):
    """The second halves of the Philox keys that are used from now on."""
    found = set()
    words, at, philox, rows = tape.Tape.words, Streams.at, np.random.Philox, tape.Tape.at

    def recorded_words(self, stream, *rest):
        found.add(stream)
        return words(self, stream, *rest)

    def recorded_rows(self, stream, *rest):
        found.add(stream)
        return rows(self, stream, *rest)

    def recorded_at(self, use, *rest):
        found.add(self._first + use)
        return at(self, use, *rest)

    def recorded_philox(*arguments, key=0, **rest):
        if np.size(key) == 2:
            found.add(int(key[1]))
        return philox(*arguments, key=key, **rest)

    monkeypatch.setattr(tape.Tape, "words", recorded_words)
    monkeypatch.setattr(tape.Tape, "at", recorded_rows)
    monkeypatch.setattr(Streams, "at", recorded_at)
    monkeypatch.setattr(np.random, "Philox", recorded_philox)
    return found


def test_every_stream_that_is_named_is_used_and_no_other(used):
    data = gpu_rsfd.SyntheticDataset(300, (3, 4), "zipf:1.1", seed=1)
    protocols = ["rsfd-grr", "rsfd-oue-r", "rsrfd-grr", "smp-adp"]
    for sampler in ("users", "counts", "marginals"):
        for assignment in tape.ASSIGNMENTS:
            options = {"sampler": sampler, "assignment": assignment, "workers": 1, "prior": "dirichlet:1"}
            options |= {"backend": "numpy"} if sampler == "users" else {}
            gpu_rsfd.simulate(data, protocols=protocols, epsilons=1.0, repetitions=2, **options)
    for protocol in ("rsfd-l-grr", "smp-biloloha"):
        gpu_rsfd.rounds(data, rounds=2, protocols=protocol, epsilons=1.0, repetitions=1, workers=1)
    Prior.of("dirichlet:1").thresholds((3, 4))
    attacked.sample(data.domain, data.frequencies, 100)
    # the sampled attributes of the sampler `counts` are on the tape
    assert used == set(STREAMS) - {tape.COUNTS}


def test_streams_are_distinct():
    assert sorted(STREAMS) == [*range(8), *range(16, 24), 32, 33]  # as published: a number stays what it is
