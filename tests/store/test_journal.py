"""The journal: a run that is under way, killed or interrupted, and everything that can be done with what it left."""

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys

import h5py
import numpy as np
import pytest
from command import PAUSE, paused, run, start, stopped
from runs import DATA, OTHER, ended, killed, names, same, sweep

import gpu_rsfd
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.running.collect import Silent
from gpu_rsfd.store import contents

MARK = b"\x89gpu-rsfd-3\r\n"
COMMAND = ["sweep", "--users", "2000", "--domain", "4x2", "--epsilon", "1", "--repetitions", "9", "--workers", "1",
           "--no-plot"]  # fmt: skip


class Lines(Silent):
    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)


# --------------------------------------------------------------------------------------------------------- kills


@pytest.mark.parametrize("blocks", [0, 1, 4])
def test_a_killed_run_is_shown_and_resumed(tmp_path, blocks):
    path = tmp_path / "r.h5"
    killed(path, blocks)
    assert "r.h5.journal" in names(tmp_path)
    assert not path.exists()
    if blocks:
        shown = gpu_rsfd.open_results(path)
        assert not shown.complete
        same(shown["mine"], blocks)
    else:
        with pytest.raises(InputError, match=r"does not exist yet, and .*journal has no repetition of all cells"):
            gpu_rsfd.open_results(path)
    results = sweep(path)
    assert results.computed == 9 - blocks
    same(results["mine"], 9)
    assert names(tmp_path) == ["r.h5"]


@pytest.mark.slow
@pytest.mark.parametrize("tail", [b"x", MARK, MARK + b"\xff" * 40, "half"])
def test_a_torn_tail_is_ignored_and_cut_off(tmp_path, tail):
    path, journal = tmp_path / "r.h5", tmp_path / "r.h5.journal"
    killed(path, 3)
    if tail == "half":
        content = journal.read_bytes()
        tail = content[content.rindex(MARK) : -9]
    with journal.open("ab") as file:
        file.write(tail)
    same(gpu_rsfd.open_results(path)["mine"], 3)
    killed(path, 2)  # the next writer cuts it off, and goes on behind
    same(gpu_rsfd.open_results(path)["mine"], 5)
    said = Lines()
    assert sweep(path, reporter=said).computed == 4
    assert said.lines == []


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_changed_record_costs_itself_alone(tmp_path, number):
    path, journal = tmp_path / "r.h5", tmp_path / "r.h5.journal"
    killed(path, 4)
    content = bytearray(journal.read_bytes())
    at = [i for i in range(len(content)) if content.startswith(MARK, i)][number]
    content[at + 900] ^= 8
    journal.write_bytes(content)
    same(gpu_rsfd.open_results(path)["mine"], number - 1) if number > 1 else None
    said = Lines()
    results = sweep(path, reporter=said)
    assert results.computed == 6
    assert said.lines == [f"{journal} is damaged: blocks in 1 places are lost, and computed again"]
    same(results["mine"], 9)


def test_a_journal_without_its_head_is_still_used(tmp_path):
    path, journal = tmp_path / "r.h5", tmp_path / "r.h5.journal"
    killed(path, 4)
    content = bytearray(journal.read_bytes())
    content[200] ^= 1
    journal.write_bytes(content)
    with pytest.raises(InputError, match=r"r.h5 does not exist"):
        gpu_rsfd.open_results(path)
    with pytest.raises(InputError, match=r"journal is of another run"):
        sweep(path, seed=4)
    assert sweep(path).computed == 5


def test_a_journal_of_another_run_is_refused(tmp_path):
    path = tmp_path / "r.h5"
    killed(path, 3)
    before = (tmp_path / "r.h5.journal").read_bytes()
    for options, words in (
        ({"seed": 4}, "seed: 3 in the file, 4 asked for"),
        ({"sampler": "counts"}, "sampler: users in the file, counts asked for"),
        ({"protocols": ["rsfd-grr"]}, "protocols: the file also has smp-adp"),
    ):
        with pytest.raises(InputError) as refused:
            sweep(path, **options)
        assert words in str(refused.value)
        assert "r.h5.journal" in str(refused.value)
    assert (tmp_path / "r.h5.journal").read_bytes() == before
    same(sweep(path, seed=4, overwrite=True)["mine"], 9, seed=4)
    assert names(tmp_path) == ["r.h5"]


def test_a_killed_run_can_be_shortened(tmp_path):
    """The file has what it has, whatever was asked for."""
    path = tmp_path / "r.h5"
    killed(path, 15, 100)
    with pytest.raises(InputError, match=r"repetitions: the file has 15, 10 asked for"):
        sweep(path, 10)
    assert sweep(path, 20).computed == 5
    same(gpu_rsfd.open_results(path)["mine"], 20)
    ended(tmp_path / "s.h5", 7, KeyboardInterrupt(), 100)
    assert names(tmp_path) == ["r.h5", "s.h5"]
    assert sweep(tmp_path / "s.h5", 8).computed == 1
    assert gpu_rsfd.open_results(tmp_path / "s.h5").complete
    killed(tmp_path / "t.h5", 2, 9, [DATA, OTHER], protocols=["rsfd-grr", "smp-adp", "spl-adp"])
    assert sweep(tmp_path / "t.h5", 9, DATA, protocols=["rsfd-grr", "smp-adp", "spl-adp"]).computed == 7


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [1, 5])
def test_an_extension_that_is_killed(tmp_path, blocks):
    """What the file held is there all the time; what was computed is used."""
    path, more = tmp_path / "r.h5", {"protocols": ["spl-adp", "rsfd-grr", "smp-adp"], "epsilons": [0.5, 1.0, 2.0]}
    sweep(path, 4)
    killed(path, blocks, 6, [DATA, OTHER], **more)
    same(gpu_rsfd.open_results(path)["mine"], 4)
    results = sweep(path, 6, [DATA, OTHER], **more)
    same(results["mine"], 6, **more)
    same(results["other"], 6, OTHER, **more)
    assert names(tmp_path) == ["r.h5"]


# --------------------------------------------------------------------------------------------------- interruptions


def test_an_interrupted_run_is_packed(tmp_path):
    for error in (KeyboardInterrupt(), RunError("a lost worker"), MemoryError()):
        path = tmp_path / type(error).__name__
        ended(path, 4, error)
        same(gpu_rsfd.open_results(path)["mine"], 4)
        assert not (tmp_path / f"{path.name}.journal").exists()


def test_unless_something_would_be_lost(tmp_path):
    path, more = tmp_path / "r.h5", {"protocols": ["rsfd-grr", "smp-adp", "spl-adp"]}
    sweep(path, 6)
    before = path.read_bytes()
    ended(path, 4, KeyboardInterrupt(), 6, **more)
    assert path.read_bytes() == before
    assert names(tmp_path) == ["r.h5", "r.h5.journal"]
    same(gpu_rsfd.open_results(path)["mine"], 6)
    assert sweep(path, 6, **more).computed == 2


def test_unless_it_is_large(tmp_path, monkeypatch):
    monkeypatch.setattr("gpu_rsfd.running.collect.PACKED_EARLY", 1000)
    ended(tmp_path / "r.h5", 4, KeyboardInterrupt())
    assert names(tmp_path) == ["r.h5.journal"]
    same(gpu_rsfd.open_results(tmp_path / "r.h5")["mine"], 4)
    assert sweep(tmp_path / "r.h5").computed == 5


def test_nothing_is_left_of_nothing(tmp_path):
    ended(tmp_path / "r.h5", 0, KeyboardInterrupt())
    assert names(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("end", [killed, lambda *given, **options: ended(*given[:2], KeyboardInterrupt(), **options)])
def test_overwriting_keeps_the_old_file_until_the_new_one_is_complete(tmp_path, end):
    path = tmp_path / "r.h5"
    sweep(path, seed=5)
    before = path.read_bytes()
    for blocks in (3, 2):
        end(path, blocks, overwrite=True)
        assert path.read_bytes() == before
        same(gpu_rsfd.open_results(path)["mine"], 9, seed=5)
    with pytest.raises(InputError, match=r"seed: 5 in the file, 3 asked for"):
        sweep(path)
    results = sweep(path, overwrite=True)
    assert results.computed == 4
    same(results["mine"], 9)
    assert sweep(path, overwrite=True).computed == 9  # it was asked for again
    assert names(tmp_path) == ["r.h5"]


# ------------------------------------------------------------------------------------------------------ full disks


def limited(size):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.slow
def test_a_full_disk(tmp_path):
    """While packing: the journal stays, and the next command only packs.  In the journal: what is before stays."""
    run(*COMMAND, "--quiet", "--output", "free.h5", cwd=tmp_path)
    size = (tmp_path / "free.h5").stat().st_size
    failed = run(*COMMAND, "--quiet", cwd=tmp_path, code=1, preexec_fn=limited(size - 2000))
    assert failed.stderr.startswith("gpu-rsfd: can't write results.h5: File too large; what is done is kept in results")
    assert len(failed.stderr.splitlines()) == 2
    assert names(tmp_path) == ["free.h5", "results.h5.journal"]
    again = run(*COMMAND, cwd=tmp_path)
    assert "results.h5 is complete" in again.stderr
    assert names(tmp_path) == ["free.h5", "results.h5"]
    a, b = (next(iter(gpu_rsfd.open_results(tmp_path / name).values())) for name in ("free.h5", "results.h5"))
    assert np.array_equal(a.counts, b.counts)
    head = 9000  # less than a journal's beginning
    failed = run(*COMMAND, "--quiet", "--output", "s.h5", cwd=tmp_path, code=1, preexec_fn=limited(head))
    assert failed.stderr.startswith("gpu-rsfd: can't write s.h5.journal: File too large; nothing was finished yet")
    assert names(tmp_path) == ["free.h5", "results.h5"]


def test_what_cannot_be_read_back_replaces_nothing(tmp_path, monkeypatch):
    path = tmp_path / "r.h5"
    sweep(path, 2)
    before = path.read_bytes()
    create = contents.hdf5.create_array

    def lose(group, name, shape, dtype):
        node = create(group, name, shape, dtype)
        return node if name != "counts" else group.create_dataset("lost", data=np.zeros(shape), chunks=node.chunks)

    monkeypatch.setattr(contents.hdf5, "create_array", lose)
    with pytest.raises(RunError, match=r"what was written can't be read back"):
        sweep(path, 4)
    assert path.read_bytes() == before
    monkeypatch.undo()
    assert sweep(path, 4).computed == 0


# --------------------------------------------------------------------------------------------- readers and writers


@pytest.mark.slow
def test_a_run_under_way(tmp_path):
    """It is shown, also from a copy in a folder that may only be read; a second writer is told who holds it."""
    process = start(*COMMAND, cwd=tmp_path, first=stopped(5, PAUSE))
    try:
        paused(process)
        table = run("show", "results.h5", cwd=tmp_path).stdout
        assert "4 repetitions" in table
        shutil.copytree(tmp_path, tmp_path / "copy")
        (tmp_path / "copy").chmod(0o555)
        read = f"import os; os.getuid() or os.setuid(65534); import runpy, sys; sys.argv = ['x', 'show', '{tmp_path}/copy/results.h5']; runpy.run_module('gpu_rsfd', run_name='__main__')"  # noqa: E501
        tmp_path.chmod(0o755)
        shown = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True, cwd="/")
        if "No module named" not in shown.stderr and "Permission denied" not in shown.stderr:
            assert shown.stdout.splitlines()[:3] == table.splitlines()[:3]
        refused = run(*COMMAND, cwd=tmp_path, code=2).stderr.splitlines()[-1]
        assert f"in use by another gpu-rsfd (process {process.pid} on {socket.gethostname()}, since 2" in refused
        (tmp_path / "results.h5.lock").unlink()  # by somebody who should not
        refused = run(*COMMAND, cwd=tmp_path, code=2).stderr.splitlines()[-1]
        assert refused == "gpu-rsfd: results.h5.journal is being written by another gpu-rsfd; wait for it"
    finally:
        process.kill()
        process.communicate()
    run(*COMMAND, "--quiet", cwd=tmp_path)
    assert names(tmp_path) == ["copy", "results.h5"]
    (tmp_path / "copy").chmod(0o755)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_signals_keep_what_is_done(tmp_path, number):
    process = start(*COMMAND, cwd=tmp_path, first=stopped(4, PAUSE))
    paused(process)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    assert "what is done is kept in results.h5" in err
    assert "to continue:\n  gpu-rsfd sweep" in err
    assert "Traceback" not in err
    assert names(tmp_path) == ["results.h5"]
    (result,) = gpu_rsfd.open_results(tmp_path / "results.h5").values()
    assert result.repetitions == range(4)


def test_the_file_is_replaced_while_it_is_read(tmp_path, monkeypatch):
    """The journal was opened, the file not yet."""
    path = tmp_path / "r.h5"
    killed(path, 4)
    opened = contents.open_file

    def late(given):
        monkeypatch.setattr(contents, "open_file", opened)
        sweep(path)
        return opened(given)

    monkeypatch.setattr(contents, "open_file", late)
    same(gpu_rsfd.open_results(path)["mine"], 9)


def test_a_journal_that_is_cut_off_while_it_is_read(tmp_path):
    """One line; a mapped file would end the process."""
    path = tmp_path / "r.h5"
    killed(path, 4)
    with contents.contents_of(path) as found:
        os.truncate(tmp_path / "r.h5.journal", 500)
        with pytest.raises(RunError, match=r"can't be read: it became shorter while it was read"):
            found.read("mine", "counts", 4)


def test_growing_results_are_read_when_asked_for(tmp_path, monkeypatch):
    path = tmp_path / "r.h5"
    monkeypatch.setattr(contents, "AT_ONCE", 0)
    killed(path, 4)
    early = gpu_rsfd.open_results(path)["mine"]
    sweep(path, 6)
    same(early, 4)  # from the file, which has the journal's repetitions by now
    middle = gpu_rsfd.open_results(path)["mine"]
    sweep(path, 9, protocols=["spl-adp", "smp-adp", "rsfd-grr"], epsilons=[2.0, 0.5, 1.0])
    same(middle, 6)
    late = gpu_rsfd.open_results(path)["mine"]
    sweep(path, 9, seed=5, overwrite=True)
    with pytest.raises(InputError, match=r"r.h5 is of another run"):
        late.counts  # noqa: B018


def test_results_can_be_copied(tmp_path, monkeypatch):
    import copy
    import pickle

    sweep(tmp_path / "r.h5", 4)
    monkeypatch.setattr(contents, "AT_ONCE", 0)
    result = gpu_rsfd.open_results(tmp_path / "r.h5")["mine"]
    for other in (copy.copy(result), pickle.loads(pickle.dumps(result))):
        same(other, 4)


def test_chunks_are_copied_as_they_are(tmp_path, monkeypatch):
    """A file that is extended keeps the bytes of its full chunks."""
    monkeypatch.setattr("gpu_rsfd.store.hdf5.MOST_ROWS", 4)
    path = tmp_path / "r.h5"
    sweep(path, 10)

    def chunks():
        with h5py.File(path) as file:
            node = file["mine/counts"]
            return [node.id.read_direct_chunk((p, 0, row, 0))[1] for p in (0, 1) for row in (0, 4)]

    before, packed = chunks(), []
    inner = contents._copied
    monkeypatch.setattr(contents, "_copied", lambda *given: packed.append(inner(*given)) or packed[-1])
    same(sweep(path, 14)["mine"], 14)
    assert chunks() == before
    assert packed.count(True) == 3 * 4 * 2  # of three arrays and four cells, the two full chunks
