"""Guarantees and priors in simulate, sweep and results files."""

import json

import h5py
import numpy as np
import pytest
from stats import normal_bound

import gpu_rsfd
from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols import PrivacySettings
from gpu_rsfd.protocols.priors import Prior
from gpu_rsfd.theory.expected import expected_mse

DATA = gpu_rsfd.SyntheticDataset(500, (3, 4), "zipf:1.0", seed=1, name="one")
PROTOCOLS = ("rsfd-grr", "rsrfd-grr", "rsrfd-oue-r", "rsfd-oue-z", "spl-adp", "smp-adp")
OPTIONS = {"epsilons": [1.0, 2.0], "protocols": PROTOCOLS, "repetitions": 3, "seed": 5}
PRIOR = {"prior": "dirichlet:0.8", "prior_seed": 7, "guarantee": "attribute"}


def test_the_paper_is_the_default():
    plain = gpu_rsfd.simulate(DATA, **OPTIONS, workers=1)
    assert np.array_equal(plain.counts, gpu_rsfd.simulate(DATA, **OPTIONS, guarantee="paper", workers=1).counts)
    assert np.array_equal(plain.counts[0], plain.counts[1]), "RS+RFD with uniform fakes is RS+FD"
    uniform = gpu_rsfd.simulate(DATA, **OPTIONS, prior="uniform", workers=1)
    assert np.array_equal(plain.counts, uniform.counts)
    assert plain.spec == uniform.spec
    assert not {"guarantee", "prior", "prior_seed"} & set(plain.spec)


@pytest.mark.parametrize("sampler", ["users", "counts", "marginals"])
def test_results_know_their_terms(sampler):
    result = gpu_rsfd.simulate(DATA, **OPTIONS, **PRIOR, sampler=sampler, workers=1)
    priors = Prior.of("dirichlet:0.8").thresholds(DATA.domain, None, 7)
    assert result.mechanism("rsrfd-grr", 1.0, 0).recipe.prior == priors[0]
    assert result.mechanism("spl-adp", 1.0, 0).budget == 1.0
    assert result.mechanism("rsrfd-grr", 1.0, 0).budget < result.mechanism("rsfd-oue-z", 1.0, 0).budget
    assert np.isfinite(result.estimates()).all()


@pytest.mark.parametrize("guarantee", ["paper", "user", "attribute"])
def test_theory_and_simulation_agree(guarantee):
    settings = PrivacySettings(priors=Prior.of("true").thresholds(DATA.domain, DATA.counts), guarantee=guarantee)
    options = {**OPTIONS, "repetitions": 2000}
    result = gpu_rsfd.simulate(DATA, **options, prior="true", guarantee=guarantee, sampler="marginals", workers=1)
    mse = result.mse("none")
    for p, protocol in enumerate(PROTOCOLS):
        for e, epsilon in enumerate((1.0, 2.0)):
            right = expected_mse(protocol, epsilon, DATA.n, DATA.domain, DATA.frequencies, settings=settings)
            error = mse[p, e].std(ddof=1) / np.sqrt(2000)
            assert abs(mse[p, e].mean() - right) < normal_bound(12) * error, (protocol, epsilon)


def test_a_file_knows_them_too(tmp_path):
    path = tmp_path / "r.h5"
    made = gpu_rsfd.sweep(DATA, **OPTIONS, **PRIOR, output=path, workers=1)
    read = gpu_rsfd.open_results(path)["one"]
    assert read.plan == made["one"].plan
    assert read.spec == made["one"].spec
    assert np.array_equal(read.estimates(), made["one"].estimates())
    assert read.spec["prior"] == "dirichlet:0.8"
    assert gpu_rsfd.sweep(DATA, **OPTIONS, **PRIOR, output=path, workers=1).computed == 0


def test_frequencies_are_kept_not_the_file_name(tmp_path):
    file = tmp_path / "prior.json"
    file.write_text("[[0.5, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25]]")
    gpu_rsfd.sweep(DATA, **OPTIONS, prior=str(file), output=tmp_path / "r.h5", workers=1)
    file.unlink()
    results = gpu_rsfd.open_results(tmp_path / "r.h5")
    assert results.spec["prior"] == [[0.5, 0.25, 0.25], [0.25] * 4]
    priors = [results["one"].mechanism("rsrfd-grr", 1.0, j).recipe.prior for j in range(2)]
    assert priors == [(2**31, 3 * 2**30), None]
    again = gpu_rsfd.sweep(DATA, **OPTIONS, prior=results.spec["prior"], output=tmp_path / "r.h5", workers=1)
    assert again.computed == 0


def test_a_file_leaves_out_what_is_as_usual(tmp_path):
    """A file without these fields is the paper's guarantee with uniform fakes."""
    path = tmp_path / "r.h5"
    gpu_rsfd.sweep(DATA, **OPTIONS, output=path, workers=1)
    with h5py.File(path) as file:
        spec = json.loads(file.attrs["spec"])
        assert "guarantee" not in spec
        assert "prior" not in spec
        assert "prior" not in file["one"]
    assert gpu_rsfd.sweep(DATA, **OPTIONS, guarantee="paper", output=path, workers=1).computed == 0


@pytest.mark.parametrize(
    "other,words",
    [
        ({"guarantee": "user"}, "guarantee: attribute in the file, user asked for"),
        ({"prior": "zipf:1", "prior_seed": 0}, "prior: dirichlet:0.8 in the file, zipf:1.0 asked for"),
        ({"prior_seed": 8}, "prior seed: 7 in the file, 8 asked for"),
    ],
)
def test_another_sweep_is_not_mixed_in(tmp_path, other, words):
    path = tmp_path / "r.h5"
    gpu_rsfd.sweep(DATA, **OPTIONS, **PRIOR, output=path, workers=1)
    with pytest.raises(InputError, match=words):
        gpu_rsfd.sweep(DATA, **OPTIONS, **{**PRIOR, **other}, output=path, workers=1)


def test_another_realised_prior_is_not_mixed_in(tmp_path, monkeypatch):
    """Priors are drawn by NumPy: another version may draw another one."""
    path = tmp_path / "r.h5"
    gpu_rsfd.sweep(DATA, **OPTIONS, **PRIOR, output=path, workers=1)
    monkeypatch.setattr("gpu_rsfd.protocols.priors.PRIORS", 99)
    with pytest.raises(InputError, match=r"rsrfd-grr has another realised prior in the file .* data set one"):
        gpu_rsfd.sweep(DATA, **OPTIONS, **PRIOR, output=path, workers=1)


@pytest.mark.parametrize(
    "options,words",
    [
        ({"guarantee": "best"}, "unknown guarantee 'best'; available: paper, user, attribute"),
        ({"prior": "zipf:1", "protocols": "rsfd-grr"}, "prior=zipf:1.0 needs a protocol whose fakes follow a prior"),
        ({"prior": [(0.5, 0.6)]}, r"prior\[0\] sums to 1.1"),
        ({"prior": [(0.5, 0.5), (0.5, 0.5)]}, r"prior\[0\] has 2 frequencies, but domain\[0\]=3"),
        ({"prior_seed": 3}, "prior_seed=3 needs a prior that is drawn"),
    ],
)
def test_bad_input(options, words):
    with pytest.raises(InputError, match=words):
        gpu_rsfd.simulate(DATA, **{**OPTIONS, **options}, workers=1)
