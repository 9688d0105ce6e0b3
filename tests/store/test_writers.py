"""Writers that overlap, that are cut off while they clean up, and that meet files of the user's."""

import contextlib
import errno
import io
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import filelock
import numpy as np
import pytest
from command import run, start
from gpu_rsfd.store.folder import folder_of

import gpu_rsfd
from gpu_rsfd.errors import InputError
from gpu_rsfd.running import collect
from gpu_rsfd.running.experiments import merge, sweep
from gpu_rsfd.store import files, folder

DATA = gpu_rsfd.SyntheticDataset(400, (3, 5), name="mine")
OPTIONS = {"epsilons": [1.0], "protocols": ["rsfd-grr", "smp-adp"], "seed": 3, "backend": "numpy", "workers": 1}


def part(path, number, parts, repetitions=6):
    return sweep(DATA, repetitions=repetitions, output=path, part=(number, parts), **OPTIONS)


def same(results, repetitions=6):
    truth = gpu_rsfd.simulate(DATA, repetitions=repetitions, **OPTIONS)
    assert np.array_equal(results["mine"].counts, truth.counts)
    assert np.array_equal(results["mine"].reporters, truth.reporters)


def names(folder):
    return sorted(p.name for p in folder.iterdir())


# -------------------------------------------------------------------------------------------------------- merging


def test_parts_of_a_longer_run_are_merged(tmp_path):
    """Parts of 6 repetitions, and one of 9 elsewhere: the larger extent counts, and nothing is lost."""
    (tmp_path / "b").mkdir()
    for number in (1, 2):
        part(tmp_path / "r.h5", number, 2)
    part(tmp_path / "b" / "r.h5", 1, 1, repetitions=9)
    for _ in range(2):  # it can be repeated
        same(merge(tmp_path / "r.h5", [tmp_path / "b" / "r.h5"]), 9)
        same(gpu_rsfd.open_results(tmp_path / "r.h5"), 9)
        assert names(tmp_path) == ["b", "r.h5"]
    same(merge(tmp_path / "r.h5"), 9)


@pytest.mark.skipif(filelock.__version__.startswith("3."), reason="this filelock unlinks by the function replaced here")
@pytest.mark.parametrize("stop", range(5))
def test_a_merge_that_is_killed_while_it_cleans_up(tmp_path, monkeypatch, stop):
    """Whatever is left of the folder, the same command ends it."""
    path = tmp_path / "r.h5"
    for number in (1, 2):
        part(path, number, 2)
    unlink, left = Path.unlink, [stop]

    class KilledError(BaseException):
        pass

    def killed(self, missing_ok=False):
        if self.parent == folder_of(path):
            if not left[0]:
                raise KilledError
            left[0] -= 1
        unlink(self, missing_ok=missing_ok)

    with monkeypatch.context() as then:
        then.setattr(Path, "unlink", killed)
        with pytest.raises(KilledError):
            merge(path)
    assert folder_of(path).exists()
    same(merge(path))
    assert names(tmp_path) == ["r.h5"]
    same(sweep(DATA, repetitions=6, output=path, **OPTIONS))


# ---------------------------------------------------------------------------------------------------- overlapping


def test_temporary_files_are_nobody_elses(tmp_path):
    """Two writers of one file: each writes to a file of its own, and the last one wins, whole."""
    path = tmp_path / "f"
    with files.replaced(path) as one:
        one.write(b"one")
        with files.replaced(path) as two:
            two.write(b"two")
            found = [p for p in tmp_path.iterdir() if files.TEMPORARY.fullmatch(p.name)]
            assert len(found) == 2
            assert {p.stat().st_mode & 0o777 for p in found} == {0o600}
        assert path.read_bytes() == b"two"
    assert path.read_bytes() == b"one"
    assert names(tmp_path) == ["f"]
    assert path.stat().st_mode & 0o777 == 0o666 & ~files.UMASK
    path.chmod(0o640)
    files.replace_file(path, b"three")
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_is_never_followed(tmp_path, monkeypatch):
    (tmp_path / "mine").write_text("mine")
    monkeypatch.setattr(files, "temporary", lambda path: tmp_path / "known")
    (tmp_path / "known").symlink_to("mine")
    with pytest.raises(files.StoreError, match="can't write"):
        files.replace_file(tmp_path / "f", b"new")
    assert (tmp_path / "mine").read_text() == "mine"
    for target in ("mine", "nowhere"):
        lock = tmp_path / "r.h5.lock"
        lock.symlink_to(target)
        with pytest.raises(InputError, match="is a link of yours"):
            sweep(DATA, repetitions=1, output=tmp_path / "r.h5", **OPTIONS)
        lock.unlink()
    assert not (tmp_path / "nowhere").exists()


def test_what_a_killed_process_left_is_removed(tmp_path, monkeypatch):
    """Of the same file and machine, and of no process that lives."""
    with monkeypatch.context() as then:
        then.setattr(os, "getpid", lambda: 2**22 + 1)  # more than any
        dead = [files.temporary(tmp_path / name) for name in ("r.h5", "other.h5")]
    with monkeypatch.context() as then:
        then.setattr(files.platform, "node", lambda: "elsewhere")
        there = files.temporary(tmp_path / "r.h5")
    mine = files.temporary(tmp_path / "r.h5")
    for path in (*dead, there, mine):
        path.touch()
    sweep(DATA, repetitions=1, output=tmp_path / "r.h5", **OPTIONS)
    assert names(tmp_path) == sorted([dead[1].name, there.name, mine.name, "r.h5"])


def test_parts_that_overlap(tmp_path):
    """1/2 beside 1/3 beside the whole: some wait, some are refused, none does harm."""
    path = tmp_path / "r.h5"
    works = [lambda i=i, n=n: part(path, i, n) for i, n in ((1, 2), (1, 3), (2, 3), (2, 2), (3, 3))]
    works.append(lambda: sweep(DATA, repetitions=6, output=path, **OPTIONS))
    for _ in range(3):
        with ThreadPoolExecutor(len(works)) as pool:
            for work in [pool.submit(work) for work in works]:
                work.result()
        same(merge(path))
        assert names(tmp_path) == ["r.h5"]
        path.unlink()


def test_a_part_has_its_folder(tmp_path, monkeypatch):
    """Nobody removes the folder of a part that has begun."""
    path, begun, go = tmp_path / "r.h5", threading.Event(), threading.Event()
    inner = collect._Collection._part

    def slow(self, *arguments):
        begun.set()
        assert go.wait(30)
        return inner(self, *arguments)

    monkeypatch.setattr(collect._Collection, "_part", slow)
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(part, path, 1, 2)
        assert begun.wait(30)
        same(sweep(DATA, repetitions=6, output=path, **OPTIONS))
        assert folder_of(path).exists()
        with pytest.raises(InputError, match="in use"):
            sweep(DATA, repetitions=6, output=path, overwrite=True, **{**OPTIONS, "seed": 4})
        go.set()
        assert working.result().computed == 0
    assert names(tmp_path) == ["r.h5"]  # nothing was left to do, and nothing is


@pytest.mark.slow
def test_overlapping_processes(tmp_path):
    command = [
        "sweep",
        "--users",
        "3000",
        "--domain",
        "6x3",
        "--epsilon",
        "1,2",
        "--repetitions",
        "30",
        "--workers",
        "1",
    ]
    command += ["--save-every", "0", "--no-plot", "--quiet", "--output", "r.h5"]
    shares = [[], *(["--part", part] for part in ("1/2", "1/3", "2/2", "2/3", "3/3"))]
    processes = [start(*command, *share, cwd=tmp_path) for share in shares]
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out, err) == (0, "", "")
    run("merge", "r.h5", cwd=tmp_path)
    (result,) = gpu_rsfd.open_results(tmp_path / "r.h5").values()
    data = gpu_rsfd.SyntheticDataset(3000, (6,) * 3)
    assert np.array_equal(result.counts, gpu_rsfd.simulate(data, epsilons=[1.0, 2.0], repetitions=30).counts)
    assert names(tmp_path) == ["r.h5"]


# ------------------------------------------------------------------------------------------------- files of the user


def test_notes_in_the_folder_stay(tmp_path):
    path = tmp_path / "r.h5"
    for number in (1, 2):
        part(path, number, 2)
    folder = folder_of(path)
    for name in ("notes.txt", "mine.lock", "begin.lock.txt", ".mine.tmp", "a-1-2-b.h5"):
        (folder / name).write_text("mine")
    (folder / "0123456789ab-0-1-0123456789ab.h5.damaged").mkdir()
    before = {"notes.txt", "mine.lock", "begin.lock.txt", ".mine.tmp", "a-1-2-b.h5"}
    for _ in range(2):
        same(merge(path))
        assert {p.name for p in folder.iterdir() if p.is_file()} == before
    assert all((folder / name).read_text() == "mine" for name in before)
    with pytest.raises(InputError, match="is a folder of yours"):
        sweep(DATA, repetitions=6, output=path, overwrite=True, **OPTIONS)
    assert {p.name for p in folder.iterdir() if p.is_file()} == before


def test_overwrite_leaves_notes_alone(tmp_path):
    path = tmp_path / "r.h5"
    part(path, 1, 2)
    (folder_of(path) / "notes.txt").write_text("mine")
    same(sweep(DATA, repetitions=6, output=path, overwrite=True, **OPTIONS))
    assert names(folder_of(path)) == ["notes.txt"]


def test_a_lock_with_content_is_somebody_elses(tmp_path):
    path = tmp_path / "r.h5"
    part(path, 1, 2)
    lock = folder_of(path) / folder.BEGIN
    lock.write_text("mine")
    with pytest.raises(InputError, match="is a file of yours"):
        part(path, 2, 2)
    assert lock.read_text() == "mine"


def test_a_signal_while_a_lock_is_made(tmp_path, monkeypatch):
    """It is removed when the process ends, unless somebody else holds it."""
    path, made = tmp_path / "r.h5", os.open

    def interrupted(*given):
        os.close(made(*given))
        raise KeyboardInterrupt

    for held in (False, True):
        with monkeypatch.context() as then, contextlib.ExitStack() as stack:
            then.setattr(files, "UNFINISHED", {})
            if held:
                stack.enter_context(filelock.FileLock(tmp_path / "r.h5.lock"))
            then.setattr(files.os, "open", interrupted)
            with pytest.raises((KeyboardInterrupt, InputError)), files.locked(path, wait=0):
                pass
            then.setattr(files.os, "open", made)
            files.clean_up()
            assert (tmp_path / "r.h5.lock").exists() == held


@pytest.mark.parametrize("memory", [0, 3, 100])
def test_a_file_is_the_same_in_memory_and_on_disk(tmp_path, monkeypatch, memory):
    monkeypatch.setattr(files, "IN_MEMORY", memory)
    with files.replaced(tmp_path / "f") as image:
        image.write(b"abcdef")
        image.seek(1)
        image.write(b"XY")
        image.truncate(4)
        image.truncate(7)
        image.seek(0)
        assert image.read(4) == b"aXYd"
        image.seek(9)
        image.write(b"end")
        image.truncate(14)
        assert image.seek(0, os.SEEK_END) == 14
    assert (tmp_path / "f").read_bytes() == b"aXYd\0\0\0\0\0end\0\0"


@pytest.mark.parametrize("failing", range(3))
def test_what_is_written_after_an_error_can_be_read_again(tmp_path, monkeypatch, failing):
    """HDF5 goes on after an error that it is not told of, and crashed on memory that nobody had written to."""
    monkeypatch.setattr(files, "IN_MEMORY", 0)
    put, calls = io.FileIO.write, []

    class Full(io.FileIO):
        def write(self, content):
            calls.append(bytes(content))
            if len(calls) > failing:
                raise OSError(errno.ENOSPC, "no space")
            return put(self, content)

    with Full(tmp_path / "f", "w+") as file:
        image, right = files.FileImage(file), io.BytesIO()
        for place, content in ((0, b"abcdef"), (4, b"ghij"), (20, b"end"), (5, b"X")):
            for each in (image, right):
                each.seek(place)
                each.write(content)
        image.seek(2)
        buffer = bytearray(b"?" * 40)
        assert image.readinto(buffer) == 21
        assert bytes(buffer) == right.getvalue()[2:] + bytes(19)
        assert image.error.errno == errno.ENOSPC


def test_a_lock_of_somebody_else_is_left_alone(tmp_path):
    """The folder of a lock was removed by its holder, and made again by another process."""
    inner = tmp_path / "r.h5.blocks"
    inner.mkdir()
    with files.locked(tmp_path / "r.h5", inner / folder.BEGIN):
        folder.clear(inner)
        inner.mkdir()
        (inner / folder.BEGIN).touch()
    assert (inner / folder.BEGIN).exists()


def test_a_lock_that_is_released_while_it_is_looked_at(tmp_path, monkeypatch):
    path, close = tmp_path / "r.h5", os.close
    lock = tmp_path / "r.h5.lock"
    lock.touch()

    def released(number):
        close(number)
        lock.unlink(missing_ok=True)

    monkeypatch.setattr(files.os, "close", released)
    with files.locked(path):
        monkeypatch.setattr(files.os, "close", close)
        assert lock.exists()
    assert not lock.exists()
