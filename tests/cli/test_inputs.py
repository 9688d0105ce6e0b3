"""Bad input: a ValueError that names the value and what is valid."""

import numpy as np
import pytest

import gpu_rsfd

DATA = gpu_rsfd.Dataset([[0, 1], [1, 2]], (2, 3))


@pytest.mark.parametrize("options,message", [
    ({"epsilons": -1.0}, r"epsilon=-1.0 must be finite and > 0"),
    ({"epsilons": 0}, r"epsilon=0.0 must be finite and > 0"),
    ({"epsilons": [1.0, float("nan")]}, r"epsilon=nan must be finite and > 0"),
    ({"epsilons": float("inf")}, r"epsilon=inf must be finite and > 0"),
    ({"epsilons": "two"}, r"epsilon=two must be a number > 0 or a logarithm"),
    ({"epsilons": []}, r"no epsilon given"),
    ({"epsilons": [1.0, 1.0]}, r"epsilon 1.0 is given twice"),
    ({"epsilons": 1e-15}, r"epsilon=1e-15 is too small for rsfd-grr with d=2 and k=2"),
    ({"epsilons": 1e4}, r"epsilon=10000.0 is too large for rsfd-grr with d=2"),
    ({"protocols": "rsfd-gr"}, r"unknown protocol 'rsfd-gr'; did you mean rsfd-grr\? available: rsfd-grr, "),
    ({"protocols": "l-grr"}, r"unknown protocol 'l-grr'; did you mean spl-l-grr\? available: "),
    ({"protocols": []}, r"no protocol given"),
    ({"protocols": ["spl-adp", "spl-adp"]}, r"protocol 'spl-adp' is given twice"),
    ({"repetitions": -3}, r"repetitions=-3 must be a whole number >= 1"),
    ({"repetitions": 0}, r"repetitions=0 must be a whole number >= 1"),
    ({"repetitions": 2.5}, r"repetitions=2.5 must be a whole number"),
    ({"repetitions": range(5, 5)}, r"repetitions=range\(5, 5\) must be a non-empty"),
    ({"repetitions": range(-1, 5)}, r"repetitions=range\(-1, 5\) must be"),
    ({"seed": -1}, r"seed=-1 must be a whole number >= 0 and < 2\*\*64"),
    ({"seed": 2**64}, r"seed=18446744073709551616 must be a whole number >= 0 and < 2\*\*64"),
    ({"seed": 1.5}, r"seed=1.5 must be"),
    ({"seed": True}, r"seed=True must be"),
    ({"backend": "jax"}, r"unknown backend 'jax'; available: "),
    ({"sampler": "poisson"}, r"unknown sampler 'poisson'; available: users, counts, marginals"),
    ({"sampler": "counts", "workers": 0}, r"workers=0 must be a whole number from 1 to 1,024"),
    ({"workers": 0}, r"workers=0 must be a whole number from 1 to 1,024"),
])  # fmt: skip
def test_simulate(options, message):
    with pytest.raises(ValueError, match=message):
        gpu_rsfd.simulate(DATA, **options)


@pytest.mark.parametrize("codes,domain,names,message", [
    ([[0], [2]], (2,), None, r"codes\[:, 0\] holds 2, outside 0 … 1 \(domain\[0\]=2\)"),
    ([[0, 0], [0, -1]], (2, 5), None, r"codes\[:, 1\] holds -1, outside 0 … 4"),
    ([[0]], (1,), None, r"domain\[0\]=1 must be a whole number from 2 to 65,535"),
    ([[0]], (65_536,), None, r"domain\[0\]=65536 must be a whole number from 2 to 65,535"),
    ([[0]], ("a",), None, r"domain\[0\]='a' must be a whole number"),
    ([[0, 1]], (2,), None, r"codes has 2 columns, but domain has 1 sizes"),
    (np.zeros((0, 2), int), (2, 2), None, r"users=0 must be a whole number >= 1"),
    (np.zeros((3, 0), int), (), None, r"domain has 0 attributes; valid: 1 to"),
    ([0, 1], (2,), None, r"codes has shape \(2,\); a table \[users, attributes\] is needed"),
    ([[0.5]], (2,), None, r"codes has dtype float64; integers"),
    ([["a"]], (2,), None, r"codes has dtype <U1; integers"),
    ([[0, 1]], (2, 2), ["a"], r"names has 1 entries, but there are 2 attributes"),
])  # fmt: skip
def test_dataset(codes, domain, names, message):
    with pytest.raises(ValueError, match=message):
        gpu_rsfd.Dataset(codes, domain, names)


@pytest.mark.parametrize("arguments,message", [
    ((0, (2,)), r"users=0 must be a whole number >= 1"),
    ((5, (2,), "normal"), r"unknown distribution 'normal'; available: uniform, zipf:S"),
    ((5, (2,), "zipf:x"), r"unknown distribution 'zipf:x'"),
    ((5, (2,), "zipf:-1"), r"unknown distribution 'zipf:-1'"),
    ((5, (2,), "uniform", -1), r"seed=-1 must be"),
])  # fmt: skip
def test_synthetic(arguments, message):
    with pytest.raises(ValueError, match=message):
        gpu_rsfd.SyntheticDataset(*arguments)


def test_unknown_dataset():
    with pytest.raises(ValueError, match=r"unknown data set 'syn7'; available: syn1, syn2"):
        gpu_rsfd.load_dataset("syn7")


@pytest.mark.parametrize("options,message", [
    ({"protocol": "x", "epsilon": 1.0}, "unknown protocol 'x'"),
    ({"protocol": "spl-adp", "epsilon": 0}, "epsilon=0.0 must be"),
    ({"protocol": "spl-adp", "epsilon": 1, "repetition": -1}, "repetition=-1 must be"),
    ({"protocol": "spl-adp", "epsilon": 1, "seed": 2**64}, "seed=18446744073709551616 must be"),
])  # fmt: skip
def test_reports(options, message):
    with pytest.raises(ValueError, match=message):
        gpu_rsfd.reports(DATA, **options)
