"""`gpu-rsfd plan`, and `--sampler` on the command line."""

import json
import math

import numpy as np
import pytest
from command import refusal, run

import gpu_rsfd
from gpu_rsfd.protocols import PrivacySettings
from gpu_rsfd.theory.expected import expected_mse

USER = PrivacySettings(guarantee="user")  # the default of `plan`


@pytest.mark.slow
def test_plan_is_the_theory(tmp_path):
    options = ["--users", "1e6", "--domain", "10x5,100", "--epsilon", "1,ln7", "--target-rmse", "0.01"]
    (shown,) = json.loads(run("plan", *options, "--json", cwd=tmp_path).stdout)
    assert (shown["users"], shown["domain"]) == (1_000_000, [10] * 5 + [100])
    assert len(shown["rows"]) == 12
    for row in shown["rows"]:
        expected = expected_mse(row["protocol"], row["epsilon"], 10**6, shown["domain"], settings=USER)
        assert row["mse"] == pytest.approx(expected, rel=1e-6)
        assert row["rmse"] == pytest.approx(math.sqrt(expected), rel=1e-6)
        cell = row["protocol"], row["epsilon"]
        at = [expected_mse(*cell, row["users_needed"] + i, shown["domain"], settings=USER) for i in (-1, 0)]
        assert at[0] > 1e-4 * (1 - 1e-6)
        assert at[1] < 1e-4 * (1 + 1e-6)
    table = run("plan", *options, cwd=tmp_path).stdout
    assert "users for RMSE 0.01" in table
    assert "RS+FD[ADP]" in table
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_plan_for_a_data_set(tmp_path):
    (shown,) = json.loads(run("plan", "--dataset", "adult", "--epsilon", "1", "--json", cwd=tmp_path).stdout)
    data = gpu_rsfd.load_dataset("adult")
    assert shown["rows"][3]["mse"] == pytest.approx(
        expected_mse("rsfd-adp", 1.0, data.n, data.domain, data.frequencies, settings=USER), rel=1e-9
    )


@pytest.mark.parametrize("arguments,message", [
    (["plan"], "a synthetic data set needs --users and --domain; --domain is missing, or give a table or --dataset"),
    (["plan", "--domain", "10", "--target-rmse", "0"], "target_rmse=0.0 must be finite and > 0"),
    (["plan", "--domain", "10", "--postprocess", "simplex"], "no theory for postprocess 'simplex'"),
    (["plan", "--users", "1e16", "--domain", "10"], "users=10000000000000000 must be a whole number >= 1 and <= 2**53"),
    (["sweep", "--sampler", "all"], "unknown sampler 'all'; available: users, counts, marginals"),
])  # fmt: skip
def test_bad_input(tmp_path, capsys, monkeypatch, arguments, message):
    error = refusal(monkeypatch, capsys, tmp_path, arguments)
    assert message in error[-1]
    assert len(error) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_billion_users(tmp_path):
    options = ["--users", "1e9", "--domain", "10x2", "--epsilon", "1", "--repetitions", "60", "--sampler", "marginals"]
    run("sweep", *options, "--no-plot", "--quiet", cwd=tmp_path)
    results = gpu_rsfd.open_results(tmp_path / "results.h5")
    (result,) = results.values()
    assert results.spec["sampler"] == result.spec["sampler"] == "marginals"
    assert result.n == 10**9
    mse = result.mse("none")
    for p, protocol in enumerate(result.protocols):
        expected = expected_mse(protocol, 1.0, 10**9, (10, 10))
        assert abs(mse[p, 0].mean() - expected) < 6 * mse[p, 0].std(ddof=1) / math.sqrt(60), protocol


@pytest.mark.slow
def test_counts_keep_the_users_reporters(tmp_path):
    options = ["--users", "5000", "--domain", "6,3", "--epsilon", "1", "--repetitions", "4", "--no-plot", "--quiet"]
    run("sweep", *options, "--output", "users.h5", cwd=tmp_path)
    run("sweep", *options, "--sampler", "counts", "--output", "counts.h5", cwd=tmp_path)
    (users,), (counts,) = (gpu_rsfd.open_results(tmp_path / f"{name}.h5").values() for name in ("users", "counts"))
    assert np.array_equal(users.reporters, counts.reporters)
    assert not np.array_equal(users.counts, counts.counts)
    refused = run("sweep", *options, "--sampler", "counts", "--output", "users.h5", cwd=tmp_path, code=2)
    assert "sampler: users in the file, counts asked for" in refused.stderr
