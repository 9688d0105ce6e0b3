"""Every stream of random words is in the table of tape.py, and nothing else draws."""

import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd import tape
from gpu_rsfd.backends.exact.substreams import Streams
from gpu_rsfd.protocols.priors import Prior
from gpu_rsfd.theory import attacked


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


def test_the_table_has_every_stream_that_is_used_and_no_other(used):
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
    assert used == set(tape.STREAMS) - {tape.COUNTS}


def test_streams_are_distinct():
    assert len(tape.STREAMS) == 8 + 4 + 4 + 2
    assert {tape.PRIORS, tape.DECISION, *range(8), *range(16, 24)} == set(tape.STREAMS)
