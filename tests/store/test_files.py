"""Files of the user stay theirs; a file is written wholly or not at all, by one writer at a time."""

import errno
import fcntl
import io
import json
import os
import threading

import h5py
import numpy as np
import pytest
from command import call, refusal
from filelock import FileLock
from runs import names, same, sweep

import gpu_rsfd
from gpu_rsfd import files
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.files import remove_leftovers, replaced
from gpu_rsfd.store.files import locked

SMALL = ["--users", "500", "--domain", "3x2", "--epsilon", "1", "--repetitions", "2", "--workers", "1"]


def content(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.csv").write_text("a,b\n" + "x,1\ny,2\n" * 10)
    (tmp_path / "domain.json").write_text(json.dumps({"a": ["x", "y"]}))
    (tmp_path / "spec.toml").write_text('dataset = "mine.csv"\nepsilon = 1\nrepetitions = 2\n')
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["codes"] = np.zeros((5, 2), int)
    (tmp_path / "link.h5").symlink_to("mine.csv")
    (tmp_path / "empty.h5").touch()
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
@pytest.mark.parametrize("arguments,output,message", [
    (["--dataset", "mine.csv"], "mine.csv", "output=mine.csv is mine.csv, which this command reads"),
    (["--dataset", "mine.csv"], "link.h5", "output=link.h5 is mine.csv, which this command reads"),
    (["--spec", "spec.toml"], "spec.toml", "output=spec.toml is spec.toml, which this command reads"),
    (["--dataset", "other.h5"], "other.h5", "which this command reads"),
    (SMALL, "other.h5", "output=other.h5 can't be replaced: other.h5 is an HDF5 file, but not a results file"),
    (SMALL, "mine.csv", "output=mine.csv can't be replaced: mine.csv is not an HDF5 file"),
    (SMALL, "empty.h5", "empty.h5 is not an HDF5 file"),
    (SMALL, "/dev/null", "/dev/null is not a regular file"),
    (SMALL, "r.png", "output=r.png ends like a figure"),
    (SMALL, "no/r.h5", "the folder no does not exist"),
    (SMALL, ".", "output=. is a directory"),
])  # fmt: skip
def test_an_output_that_is_not_ours_is_refused(folder, monkeypatch, capsys, arguments, output, message, overwrite):
    before = content(folder)
    error = refusal(monkeypatch, capsys, folder, ["sweep", *arguments, "--output", output, *overwrite])
    assert len(error) == 1
    assert message in error[0]
    assert content(folder) == before


def test_original_files_are_no_output(tmp_path, monkeypatch, capsys):
    (tmp_path / "adult.data").write_text("")
    arguments = ["paper", "--data-dir", ".", "--output", "adult.data", "--overwrite"]
    (line,) = refusal(monkeypatch, capsys, tmp_path, arguments)
    assert "output=adult.data is adult.data, which this command reads" in line


def test_a_sweep_beside_its_inputs_is_resumed(tmp_path, monkeypatch):
    """Its output has the name of a data set, and lies in the folder of the original files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPU_RSFD_DATA", str(tmp_path))
    arguments = ["--dataset", "nursery", "--sampler", "marginals", "--epsilon", "1", "--repetitions", "2"]
    command = ["sweep", *arguments, "--no-plot", "--quiet", "--output", "nursery"]
    assert call(monkeypatch, *command) == 0
    before = content(tmp_path)
    assert call(monkeypatch, *command) == 0
    assert content(tmp_path) == before
    assert list(before) == ["nursery"]


def test_damaged_results_may_be_overwritten_on_request(tmp_path):
    path = tmp_path / "r.h5"
    sweep(path, 2)
    with h5py.File(path, "r+") as file:
        file.attrs["device"] = np.bytes_(b"[]")
    with pytest.raises(InputError, match=r"is damaged: sha256 does not fit .* run the command .* with --overwrite"):
        sweep(path, 2)
    same(sweep(path, 2, overwrite=True)["mine"], 2)


@pytest.mark.slow
def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    link, real = tmp_path / "link.h5", tmp_path / "real" / "r.h5"
    link.symlink_to("real/r.h5")
    assert sweep(link)
    assert link.is_symlink()
    assert gpu_rsfd.open_results(real).complete
    assert names(tmp_path / "real") == ["r.h5"]
    with locked(real), pytest.raises(InputError, match=r"in use by another"):
        sweep(link)
    link.unlink()
    link.symlink_to("nowhere/r.h5")
    with pytest.raises(InputError, match=r"is a link into .*nowhere, a folder that does not exist"):
        sweep(link)


def test_modes_are_kept(tmp_path):
    path = tmp_path / "r.h5"
    sweep(path, 2)
    path.chmod(0o640)
    sweep(path, 3)
    assert path.stat().st_mode & 0o777 == 0o640


def test_only_leftovers_of_ours_are_removed(tmp_path):
    mine = [".r.h5.tmp", "r.h5.tmp", ".r.h5.0123456789abcdeX.gpu-rsfd.tmp", ".s.h5.0123456789abcdef.gpu-rsfd.tmp"]
    for name in (*mine, ".r.h5.0123456789abcdef.gpu-rsfd.tmp"):
        (tmp_path / name).write_text("mine")
    sweep(tmp_path / "r.h5", 2)
    assert names(tmp_path) == sorted([*mine, "r.h5"])


# ----------------------------------------------------------------------------------------------------------- locks


def unchanged(path):
    """What nobody may change of a file; that it was looked at shows in `st_atime` alone."""
    found = path.lstat()
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns


@pytest.mark.parametrize("make", [
    lambda path: path.write_text("mine"),
    lambda path: path.symlink_to("elsewhere"),
    os.mkfifo,
    lambda path: path.mkdir(),
])  # fmt: skip
def test_a_lock_that_is_not_ours(tmp_path, make):
    lock = tmp_path / "r.h5.lock"
    make(lock)
    before = unchanged(lock)
    with pytest.raises(InputError, match=r"needs .*r\.h5\.lock as its lock, but that is a file of yours"):
        sweep(tmp_path / "r.h5", 2)
    assert unchanged(lock) == before
    assert names(tmp_path) == ["r.h5.lock"]


def test_a_lock_that_was_left_behind(tmp_path):
    for text in ("", 'gpu-rsfd {"host": "gone", "process": 1, "since": "1970-01-01"}\n', "gpu-rsfd {"):
        (tmp_path / "r.h5.lock").write_text(text)
        sweep(tmp_path / "r.h5", 2)
        assert names(tmp_path) == ["r.h5"]


@pytest.mark.parametrize("said", ["", "gpu-rsfd [", "gpu-rsfd {}"])
@pytest.mark.slow
def test_a_lock_that_says_nothing(tmp_path, said):
    with FileLock(tmp_path / "r.h5.lock"):
        (tmp_path / "r.h5.lock").write_text(said)
        with pytest.raises(InputError, match=r"r\.h5 is in use by another gpu-rsfd; wait"):
            sweep(tmp_path / "r.h5", 2)


def test_a_lock_of_somebody_else_is_left_alone(tmp_path):
    """It was removed, and made again by another process."""
    lock = tmp_path / "r.h5.lock"
    with locked(tmp_path / "r.h5"):
        lock.unlink()
        lock.touch()
    assert lock.exists()


@pytest.mark.parametrize("where", ["open", "write"])
def test_a_signal_while_a_lock_is_made(tmp_path, monkeypatch, where):
    def interrupted(*given):
        monkeypatch.undo()
        if where == "open":
            os.close(os.open(*given))
        raise KeyboardInterrupt

    monkeypatch.setattr(*((os, "open") if where == "open" else ("pathlib.Path.write_bytes",)), interrupted)
    with pytest.raises(KeyboardInterrupt), locked(tmp_path / "r.h5"):
        pass
    assert names(tmp_path) == []


def test_two_at_once(tmp_path):
    """Two whole runs on one output at the same moment: one of them, or one after the other."""
    ends = []

    def work():
        try:
            ends.append(sweep(tmp_path / "r.h5", 4))
        except InputError as error:
            ends.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(gpu_rsfd.open_results(tmp_path / "r.h5")["mine"], 4)
    assert all("in use by another" in end for end in ends if isinstance(end, str))
    assert names(tmp_path) == ["r.h5"]


# --------------------------------------------------------------------------------------------------- durable files


def test_a_file_object(tmp_path):
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
def test_what_is_written_after_an_error_can_be_read_again(tmp_path, failing):
    """HDF5 goes on after an error that it is not told of, and crashed on memory that nobody had written to."""
    put, calls = io.FileIO.write, []

    class Full(io.FileIO):
        def write(self, given):
            calls.append(bytes(given))
            if len(calls) > failing:
                raise OSError(errno.ENOSPC, "no space")
            return put(self, given)

    with Full(tmp_path / "f", "w+") as file:
        image, right = files.FileImage(file), io.BytesIO()
        for place, given in ((0, b"abcdef"), (4, b"ghij"), (20, b"end"), (5, b"X")):
            for each in (image, right):
                each.seek(place)
                each.write(given)
        image.seek(2)
        buffer = bytearray(b"?" * 40)
        assert image.readinto(buffer) == 21
        assert bytes(buffer) == right.getvalue()[2:] + bytes(19)
        assert image.error.errno == errno.ENOSPC


@pytest.mark.parametrize("call", ["fsync", "replace", "open"])
def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch, call):
    (tmp_path / "f").write_text("old")

    def failing(*given):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as then:
        then.setattr(os, call, failing)
        with pytest.raises(RunError, match=r"can't write .*f: No space left on device"):
            files.replace_file(tmp_path / "f", b"new")
    assert content(tmp_path) == {"f": b"old"}


def test_a_live_file_is_nobody_elses_leftover(tmp_path, monkeypatch):
    """Of containers with one host name and one process number; also between making a file and locking it."""
    path, lock, met = tmp_path / "r.h5", fcntl.flock, []

    def late(file, how):
        if not met:
            met.append(how)
            remove_leftovers(path)  # somebody else's, at the worst moment
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with replaced(path) as file:
        file.write(b"one")
        if not os.fork():  # another writer, with our name and number
            try:
                os.getpid = os.getppid
                with replaced(path) as other:
                    other.write(b"two")
            finally:
                os._exit(0)
        assert os.wait()[1] == 0
        assert path.read_bytes() == b"two"
        file.write(b" and more")
    assert path.read_bytes() == b"one and more"
    assert names(tmp_path) == ["r.h5"]
    assert met
