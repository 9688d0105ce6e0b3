"""Reports in chunks are the literal reports, bit by bit."""

import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd.errors import InputError
from gpu_rsfd.measure.reports import Chunk, report_chunks
from gpu_rsfd.planning import Plan
from gpu_rsfd.protocols import PROTOCOLS, PrivacySettings
from gpu_rsfd.protocols.priors import Prior
from gpu_rsfd.tape import Tape

DATA = gpu_rsfd.SyntheticDataset(333, (3, 65, 2, 5), "zipf:1.1", seed=4)
SETTINGS = PrivacySettings(priors=Prior.of("dirichlet:0.5").thresholds(DATA.domain))


@pytest.mark.parametrize("users", [None, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 64, 1000)), 100])
@pytest.mark.parametrize("assignment", ["uniform", "balanced"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_chunks_are_the_literal_reports(protocol, assignment, users):
    if users == 1 and assignment == "balanced":
        pytest.skip("the permutation of a single user at a time takes long")
    data = DATA if users != 1 else gpu_rsfd.SyntheticDataset(20, (3, 2), seed=1)
    settings = SETTINGS if users != 1 else gpu_rsfd.protocols.DEFAULT_SETTINGS
    right = gpu_rsfd.reports(data, protocol, 1.2, 2**64 - 1, 7, assignment, settings)
    chunks = list(report_chunks(data, protocol, 1.2, 2**64 - 1, 7, assignment, settings, users))
    assert [c.start for c in chunks][1:] == [c.stop for c in chunks][:-1]
    assert np.array_equal(np.concatenate([c.sampled for c in chunks]), right.sampled)
    assert chunks[0].mechanisms == right.mechanisms
    for j in range(data.d):
        values, senders = (np.concatenate([getattr(c, name)[j] for c in chunks]) for name in ("values", "users"))
        assert np.array_equal(values, right.values[j])
        assert values.dtype == right.values[j].dtype
        assert np.array_equal(senders, right.users[j])
    assert np.array_equal(sum(c.counts() for c in chunks), right.counts())


def test_uniforms_are_the_tapes():
    chunk = Chunk(DATA.column, Plan.of(DATA.domain, ["spl-oue"], [1.0]), DATA.n, 5, 3, 70, 300)
    for j, offset in enumerate(DATA.domain.offsets):
        right = np.stack([Tape(5).uniforms(offset + v, 3, 70, 300) for v in range(DATA.domain[j])])
        assert np.array_equal(chunk.uniforms(j), right)


def test_bad_input():
    with pytest.raises(InputError, match="known only by its counts"):
        report_chunks(gpu_rsfd.CountedDataset.of_distribution(100, (2, 3), "uniform"), "rsfd-grr", 1.0)
    with pytest.raises(InputError, match="users=0"):
        report_chunks(DATA, "rsfd-grr", 1.0, users=0)
    with pytest.raises(InputError, match="unknown protocol"):
        report_chunks(DATA, "rsfd", 1.0)
