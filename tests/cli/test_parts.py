"""`sweep --part 3/16` and `merge`: job arrays without a daemon."""

import shlex

import numpy as np
import pytest
from command import call, refusal, start

import gpu_rsfd
from gpu_rsfd import merge, sweep

DATA = [
    gpu_rsfd.SyntheticDataset(900, (3, 5), "zipf:1", name="large"),
    gpu_rsfd.SyntheticDataset(100, (4,), name="small"),
]
OPTIONS = {"epsilons": [1.0, 2.0], "protocols": ["rsfd-grr", "smp-adp"], "backend": "numpy", "workers": 1}
SMALL = ["--users", "500", "--domain", "3x2", "--epsilon", "1", "--repetitions", "10", "--workers", "1"]


def part(path, number, parts, repetitions=20, **options):
    return sweep(DATA, repetitions=repetitions, output=path, part=(number, parts), **{**OPTIONS, **options})


def same(results, repetitions=20):
    assert results.complete
    for data in DATA:
        truth = gpu_rsfd.simulate(data, **OPTIONS, repetitions=repetitions)
        assert np.array_equal(results[data.name].counts, truth.counts)
        assert np.array_equal(results[data.name].mse("simplex"), truth.mse("simplex"))


def test_marginals_without_counts(tmp_path):
    path = tmp_path / "r.h5"
    options = {"epsilons": [1.0], "protocols": ["rsfd-grr", "smp-adp"], "sampler": "marginals", "repetitions": 250}
    for number in (1, 2, 3):
        sweep(DATA, output=path, keep="mse", part=(number, 3), **options)
    results = merge(path)
    for data in DATA:
        assert np.array_equal(results[data.name].mse(), gpu_rsfd.simulate(data, **options).mse())


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for number in (1, 3):
        assert call(monkeypatch, "sweep", *SMALL, "--part", f"{number}/3") == 0
        assert f"part {number} of 3 is done: " in capsys.readouterr().err
    assert call(monkeypatch, "merge", "results.h5") == 1
    assert "to be run again: part 2 of 3" in capsys.readouterr().err
    assert call(monkeypatch, "sweep", *SMALL, "--part", "2/3", "--quiet") == 0
    assert call(monkeypatch, "merge", "results.h5") == 0
    assert capsys.readouterr().out == "results.h5 is complete: 1 data set, 10 repetitions\n"
    assert [p.name for p in tmp_path.iterdir()] == ["results.h5"]


@pytest.mark.parametrize("arguments,message", [
    (["sweep", *SMALL, "--part", "0/3"], "part=0/3 must be a part and the number of parts"),
    (["sweep", *SMALL, "--part", "4/3"], "part=4/3 must be a part and the number of parts"),
    (["sweep", *SMALL, "--part", "three"], "part=three must be a part and the number of parts, such as 3/16"),
    (["sweep", *SMALL, "--part", "1/3", "--overwrite"], "overwrite can't be used with a part"),
    (["merge", "missing.h5"], "missing.h5 has no parts beside it"),
    (["merge", "missing.h5", "other.h5"], "missing.h5 has no parts beside it"),
])  # fmt: skip
def test_bad_input(tmp_path, monkeypatch, capsys, arguments, message):
    line = refusal(monkeypatch, capsys, tmp_path, arguments)[-1]
    assert message in line
    assert list(tmp_path.iterdir()) == []


def test_what_is_said_of_a_part_of_another_run_can_be_done(tmp_path, monkeypatch, capsys):
    """A part is not replaced, and what extends it is a part as well."""
    run = ["sweep", *SMALL, "--protocol", "rsfd-grr,smp-grr", "--part", "1/2", "--quiet"]
    assert call(monkeypatch, *run, "--output", str(tmp_path / "results.h5")) == 0
    lines = refusal(monkeypatch, capsys, tmp_path, [*run, "--seed", "3"], last=False)
    assert lines[0].endswith("part-1-of-2 holds the results of another run; give another --output")
    other = ["spl-grr" if word == "rsfd-grr,smp-grr" else word for word in run]
    lines = refusal(monkeypatch, capsys, tmp_path, other, last=False)
    extends = shlex.split(lines[1])
    assert extends[-2:] == ["--part", "1/2"]
    assert call(monkeypatch, *extends[1:], "--quiet") == 0
    assert [p.name for p in tmp_path.iterdir()] == ["results.h5.part-1-of-2"]


@pytest.mark.slow
def test_parts_at_the_same_time(tmp_path):
    """As an array of jobs starts them; one is killed and run again."""
    command = ["--users", "20000", "--domain", "10x3", "--repetitions", "80", "--workers", "1", "--save-every", "0.05"]
    parts = [start("sweep", *command, "--part", f"{i}/3", "--quiet", cwd=tmp_path) for i in (1, 2, 3)]
    while not (tmp_path / "results.h5.part-1-of-3").exists() and parts[0].poll() is None:
        pass
    parts[0].kill()
    for process in parts:
        _, err = process.communicate(timeout=60)
        assert err == ""
    again = start("sweep", *command, "--part", "1/3", "--quiet", cwd=tmp_path)
    assert again.communicate(timeout=60) == ("", "")
    result = merge(tmp_path / "results.h5")["uniform-n20000-d3"]
    truth = gpu_rsfd.simulate(gpu_rsfd.SyntheticDataset(20000, (10,) * 3), repetitions=80)
    assert np.array_equal(result.counts, truth.counts)
    assert [p.name for p in tmp_path.iterdir()] == ["results.h5"]
