import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd.results.estimate import POSTPROCESS, postprocess
from gpu_rsfd.results.metrics import METRICS, average, per_attribute

DOMAIN = (3, 2)
RAW = np.array([[0.7, -0.2, 0.1, 0.4, 0.9], [-0.1, -0.3, 0.0, -0.5, -0.6]])


def test_none_and_clip():
    assert np.array_equal(postprocess("none", RAW, DOMAIN), RAW)
    assert postprocess("clip", RAW, DOMAIN).tolist() == [[0.7, 0, 0.1, 0.4, 0.9], [0] * 5]


def test_clip_normalize():
    got = postprocess("clip-normalize", RAW, DOMAIN)
    np.testing.assert_allclose(got[0], [0.875, 0, 0.125, 0.4 / 1.3, 0.9 / 1.3])
    np.testing.assert_allclose(got[1], [1 / 3] * 3 + [1 / 2] * 2)  # all <= 0: uniform


def brute_force_simplex(f):
    """Euclidean projection by bisection on the shift."""
    low, high = f.min() - 1, f.max()
    for _ in range(200):
        mid = (low + high) / 2
        low, high = (mid, high) if np.maximum(f - mid, 0).sum() > 1 else (low, mid)
    return np.maximum(f - low, 0)


def test_simplex_is_the_nearest_point():
    rng = np.random.Generator(np.random.Philox(1))
    for k in (2, 3, 10):
        for scale in (0.1, 1, 10):
            f = rng.normal(1 / k, scale, (20, k))
            got = postprocess("simplex", f, (k,))
            np.testing.assert_allclose(got, [brute_force_simplex(row) for row in f], atol=1e-12)
            np.testing.assert_allclose(got.sum(axis=-1), 1)


def test_metric_is_the_papers():
    truth = np.array([0.5, 0.3, 0.2, 0.6, 0.4])
    got = average(METRICS["mse"], truth, RAW, DOMAIN)
    for row, value in zip(RAW, got, strict=True):
        first, second = ((row - truth) ** 2)[:3], ((row - truth) ** 2)[3:]
        assert value == pytest.approx((sum(first) / 3 + sum(second) / 2) / 2)
    assert per_attribute(METRICS["mse"], truth, RAW, DOMAIN).shape == (2, 2)


def test_nobody_reported():
    """One user, three attributes: Smp leaves two of them without a report.  NaN, no crash, no zero."""
    data = gpu_rsfd.Dataset([[0, 1, 2]], (2, 3, 4))
    result = gpu_rsfd.simulate(data, epsilons=1.0, protocols=["smp-grr", "smp-oue", "rsfd-grr"], repetitions=4)
    empty = result.reporters[0, 0] == 0
    assert empty.sum(axis=1).tolist() == [2] * 4
    for name in (*POSTPROCESS, np.nan_to_num):
        estimates = result.estimates(name)
        undefined = result.undefined(name)  # mle for bits; power for a single user
        defined = [look.label not in undefined for look in result.plan.looks]
        for a in result.plan.attributes:
            columns = slice(a.offset, a.offset + a.k)
            for p in np.flatnonzero(defined[:2]):
                assert np.array_equal(np.isnan(estimates[p, 0, :, columns]).all(axis=1), empty[:, a.index])
                assert np.array_equal(np.isnan(estimates[p, 0, :, columns]).any(axis=1), empty[:, a.index])
        assert np.isnan(estimates[2]).any() != defined[2]
        for metric in METRICS:
            assert np.isnan(result.error(metric, name)[:2]).all()
            assert np.isfinite(result.error(metric, name)[2]).all() == defined[2]


def test_unknown_postprocess():
    result = gpu_rsfd.simulate(gpu_rsfd.Dataset([[0], [1]], (2,)), epsilons=1.0, repetitions=1)
    with pytest.raises(ValueError, match="unknown postprocess 'clipp'; available: none, clip, clip-normalize, simplex"):
        result.mse("clipp")
