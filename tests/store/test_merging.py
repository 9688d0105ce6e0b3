"""Parts of a job array: journals of their own that can be copied anywhere, and what `merge` makes of them."""

import itertools
import shutil

import pytest
from command import PAUSE, paused, run, start, stopped
from runs import DATA, OTHER, killed, names, same, sweep

import gpu_rsfd
from gpu_rsfd import merge
from gpu_rsfd.errors import InputError, RunError


def parts(path, of, *given, only=(), **options):
    for number in only or range(1, of + 1):
        assert not sweep(path, *given, part=(number, of), **options).complete


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2)])
def test_parts_in_any_order(tmp_path, order):
    path = tmp_path / "r.h5"
    parts(path, 3, 7, [DATA, OTHER], only=order)
    assert names(tmp_path) == [f"r.h5.part-{number}-of-3" for number in (1, 2, 3)]
    with pytest.raises(InputError, match=r"r.h5 does not exist yet; 3 parts of it do: gpu-rsfd merge"):
        gpu_rsfd.open_results(path)
    for _ in range(2):  # merging again changes nothing
        results = merge(path)
        assert results.complete
        same(results["mine"], 7)
        same(results["other"], 7, OTHER)
        assert names(tmp_path) == ["r.h5"]


def test_what_is_missing_is_named(tmp_path):
    path = tmp_path / "r.h5"
    parts(path, 4, 12, only=(1, 3))
    for _ in range(2):
        with pytest.raises(RunError, match=r"mine: 3 … 5, 9 … 11; to be run again: part 2, 4 of 4"):
            merge(path)
        same(gpu_rsfd.open_results(path)["mine"], 3)
        assert names(tmp_path) == ["r.h5", "r.h5.part-1-of-4", "r.h5.part-3-of-4"]
    parts(path, 4, 12, only=(2, 4))
    same(merge(path)["mine"], 12)
    assert names(tmp_path) == ["r.h5"]
    with pytest.raises(InputError, match=r"s.h5 has no parts beside it"):
        merge(tmp_path / "s.h5")


def test_copies_and_other_cuts(tmp_path):
    """Parts lie in other folders, are named one by one, overlap, and are of a shorter run; a copy is left alone."""
    path, far = tmp_path / "r.h5", tmp_path / "far"
    far.mkdir()
    parts(path, 2, 6, only=(1,))
    parts(far / "r.h5", 3, 9)
    shutil.copy(far / "r.h5.part-3-of-3", tmp_path / "mailed.part-3-of-3")
    (far / "r.h5.part-3-of-3").unlink()
    with pytest.raises(RunError, match=r"missing repetitions"):
        merge(path, [far / "r.h5"])
    same(merge(path, [far / "r.h5", tmp_path / "mailed.part-3-of-3"])["mine"], 9)
    assert names(tmp_path) == ["far", "r.h5"]
    assert names(far) == []


def test_parts_of_another_run(tmp_path):
    path = tmp_path / "r.h5"
    parts(path, 2, only=(1,))
    parts(path, 3, only=(2,), seed=4)
    with pytest.raises(InputError, match=r"(?s)is of another run than .*seed: "):
        merge(path)
    (tmp_path / "r.h5.part-2-of-3").unlink()
    sweep(path, seed=5)
    with pytest.raises(InputError, match=r"(?s)is of another run than .*seed: "):
        merge(path)
    assert names(tmp_path) == ["r.h5", "r.h5.part-1-of-2"]


def test_a_killed_part_is_resumed(tmp_path):
    path = tmp_path / "r.h5"
    killed(path, 2, part=(1, 2))
    parts(path, 2, only=(2,))
    with pytest.raises(RunError, match=r"mine: 2 … 3; to be run again: part 1 of 2|mine: 2 … 4"):
        merge(path)
    assert sweep(path, part=(1, 2)).computed in (2, 3)
    assert sweep(path, part=(1, 2)).computed == 0
    same(merge(path)["mine"], 9)


def test_a_damaged_part_is_named(tmp_path):
    path = tmp_path / "r.h5"
    parts(path, 2)
    part = tmp_path / "r.h5.part-1-of-2"
    content = bytearray(part.read_bytes())
    content[-40] ^= 4
    part.write_bytes(content)
    with pytest.raises(RunError, match=r"missing repetitions .*; to be run again: part 1 of 2"):
        merge(path)
    sweep(path, part=(1, 2))
    same(merge(path)["mine"], 9)


def test_a_part_beside_a_whole_run(tmp_path):
    """They do each other no harm; a merge takes what either has."""
    path = tmp_path / "r.h5"
    parts(path, 3, only=(3,))
    killed(path, 2)
    assert names(tmp_path)[-2:] == ["r.h5.lock", "r.h5.part-3-of-3"]
    with pytest.raises(RunError, match=r"mine: 2 … 5;"):
        merge(path)
    same(sweep(path)["mine"], 9)
    same(merge(path)["mine"], 9)
    assert names(tmp_path) == ["r.h5"]


@pytest.mark.slow
def test_a_running_part_is_read_and_not_removed(tmp_path):
    command = ["sweep", "--users", "300", "--domain", "3,4", "--epsilon", "1", "--repetitions", "6", "--workers", "1",
               "--quiet"]  # fmt: skip
    process = start(*command, "--part", "1/2", cwd=tmp_path, first=stopped(2, PAUSE))
    try:
        paused(process)
        refused = run(*command, "--part", "1/2", cwd=tmp_path, code=2).stderr
        assert f"is in use by another gpu-rsfd (process {process.pid} on " in refused
        run(*command, "--part", "2/2", cwd=tmp_path)
        missing = run("merge", "results.h5", cwd=tmp_path, code=1).stderr
        assert "to be run again: part 1 of 2" in missing
        run(*command, "--part", "1/1", cwd=tmp_path)  # another cut, which has everything
        assert "results.h5 is complete" in run("merge", "results.h5", cwd=tmp_path).stdout
        assert names(tmp_path) == ["results.h5", "results.h5.part-1-of-2", "results.h5.part-1-of-2.lock"]
    finally:
        process.kill()
        process.communicate()
    run("merge", "results.h5", cwd=tmp_path)
    assert names(tmp_path) == ["results.h5"]


def test_many_parts(tmp_path):
    """More than a process may have files open, as a rule; some are empty."""
    path = tmp_path / "r.h5"
    parts(path, 30, 20)
    same(merge(path)["mine"], 20)


def test_shares_cover_everything_once():
    from gpu_rsfd.running.collect import shares

    for sizes, total, of in itertools.product([(5,), (1, 1000), (7, 3, 9)], [1, 6, 100], [1, 2, 7, 40]):
        found = [shares(sizes, total, number, of) for number in range(1, of + 1)]
        for own in zip(*found, strict=True):
            assert sorted(r for first, stop in own for r in range(first, stop)) == list(range(total))
        work = [sum((b - a) * size for (a, b), size in zip(each, sizes, strict=True)) for each in found]
        assert max(work) <= sum(sizes) * total / of + max(sizes)


@pytest.mark.parametrize("part", [(0, 2), (3, 2), (1, 10**6), (1.0, 2), ("1", 2)])
def test_no_such_part(tmp_path, part):
    with pytest.raises(InputError, match=r"must be a part and the number of parts"):
        sweep(tmp_path / "r.h5", part=part)
    with pytest.raises(InputError, match=r"overwrite can't be used with a part"):
        sweep(tmp_path / "r.h5", part=(1, 2), overwrite=True)
