"""`sweep --part 3/16` and `merge`: job arrays without a daemon."""

import numpy as np
import pytest
from command import call, refusal, start

import gpu_rsfd
from gpu_rsfd import merge, sweep
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.running.collect import shares
from gpu_rsfd.store.files import locked

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


@pytest.mark.parametrize("sizes,total,parts", [([1], 100, 16), ([5, 1, 1], 10, 4), ([1, 1000], 3, 7), ([3, 3], 1, 5)])
def test_every_repetition_is_in_one_part(sizes, total, parts):
    seen = [[0] * total for _ in sizes]
    work = []
    for number in range(1, parts + 1):
        found = shares(sizes, total, number, parts)
        for row, (first, stop) in zip(seen, found, strict=True):
            for r in range(first, stop):
                row[r] += 1
        work.append(sum(size * (stop - first) for size, (first, stop) in zip(sizes, found, strict=True)))
    assert all(count == 1 for row in seen for count in row)
    assert max(work) - sum(work) / parts <= max(sizes)


def test_parts_are_joined(tmp_path):
    path = tmp_path / "r.h5"
    for number in (4, 1, 3, 2, 5):
        part(path, number, 5)
        assert not path.exists()
    assert part(path, 3, 5).computed == 0
    same(merge(path))
    assert [p.name for p in tmp_path.iterdir()] == ["r.h5"]
    same(merge(path))  # nothing to do
    with locked(path), pytest.raises(InputError, match="in use by another"):
        merge(path)


def test_what_is_missing_is_named(tmp_path):
    path = tmp_path / "r.h5"
    for number in (1, 3, 4):
        part(path, number, 4)
    with pytest.raises(RunError, match=r"is not complete; missing repetitions .*large: 5 … \d+; to be .* part 2 of 4$"):
        merge(path)
    assert len(gpu_rsfd.open_results(path)["large"].repetitions) == 5
    part(path, 2, 4)
    same(merge(path))


def test_parts_from_other_folders(tmp_path):
    for number in (1, 2, 3):
        (tmp_path / str(number)).mkdir()
        part(tmp_path / str(number) / "r.h5", number, 3)
    others = [tmp_path / "2" / "r.h5", tmp_path / "3" / "r.h5"]
    with pytest.raises(RunError, match="part 2, 3 of 3"):
        merge(tmp_path / "1" / "r.h5")
    with pytest.raises(RunError, match="part 1 of 3"):
        merge(tmp_path / "new.h5", others)
    same(merge(tmp_path / "1" / "r.h5", others))
    part(tmp_path / "1" / "r.h5", 1, 2, repetitions=30)
    part(tmp_path / "2" / "r.h5", 2, 2, repetitions=30, seed=9)
    with pytest.raises(InputError, match="seed"):
        merge(tmp_path / "1" / "r.h5", others)


def test_a_part_extends_a_finished_sweep(tmp_path):
    path = tmp_path / "r.h5"
    sweep(DATA, repetitions=5, output=path, **OPTIONS)
    for number in (1, 2):
        part(path, number, 2)
    same(merge(path))


def test_parts_of_another_sweep_are_refused(tmp_path):
    path = tmp_path / "r.h5"
    part(path, 1, 3)
    with pytest.raises(InputError, match=r"(?s)part-1-of-3 holds another sweep.*seed: 0 in the file, 1 asked for"):
        part(path, 1, 3, seed=1)
    with pytest.raises(InputError, match="other parts may be under way"):
        part(path, 2, 3, overwrite=True)


def test_a_part_under_way_is_read_and_left_alone(tmp_path):
    path = tmp_path / "r.h5"
    for number in (1, 2):
        part(path, number, 2)
    running = tmp_path / "r.h5.part-2-of-2"
    with locked(running):
        with pytest.raises(InputError, match="is in use by another gpu-rsfd"):
            part(path, 2, 2)
        same(merge(path))
        assert running.exists()
    same(merge(path))
    assert [p.name for p in tmp_path.iterdir()] == ["r.h5"]


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
