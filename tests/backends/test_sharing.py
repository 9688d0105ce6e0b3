"""A data set's arrays are mapped by all worker processes, not copied, and leave no file behind."""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd.backends import sharing
from gpu_rsfd.backends.pool import Pool
from gpu_rsfd.errors import RunError

WORK = """
import os, re, signal
from pathlib import Path

def private():  # memory that is backed by no file
    text = Path("/proc/self/smaps_rollup").read_text()
    return sum(1024 * int(n) for n in re.findall(r"Anonymous: +(\\\\d+)", text))

def read(columns, _):
    before, data = private(), columns.dataset
    total = sum(int(columns(j, 0, data.n).sum(dtype="int64")) for j in range(data.d))
    return os.getpid(), private() - before, total, columns(0, 0, 5).flags.writeable

def write(columns, number):
    columns.dataset.extra[0] += number
    return int(columns.dataset.extra[0])

def end(columns):
    os.kill(os.getpid(), signal.SIGKILL)
"""


class Noted(gpu_rsfd.Dataset):
    """A data set with an array of its own."""


@pytest.fixture
def work(tmp_path, monkeypatch):
    (tmp_path / "work_on_shared.py").write_text(WORK.replace("\\\\", "\\"))
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("work_on_shared", None)
    import work_on_shared

    return work_on_shared


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder of temporary files, of this test alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def pool():
    pool = Pool()
    yield pool
    pool.close()


def table(n=1 << 20, d=16, seed=0):
    codes = np.random.Generator(np.random.Philox(seed)).integers(0, 7, (n, d), np.uint8)
    return codes, Noted(codes, (7,) * d)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="looks at memory in /proc")
def test_a_worker_takes_no_memory_for_the_data(pool, work, temporary):
    codes, data = table()
    answers = [answer for _, answer in pool.each(3, data, work.read, [(i,) for i in range(12)])]
    assert len({pid for pid, *_ in answers}) == 3
    assert {total for _, _, total, _ in answers} == {int(codes.sum(dtype=np.int64))}
    assert not any(writeable for *_, writeable in answers)
    assert max(private for _, private, _, _ in answers) < 0.05 * codes.nbytes
    assert list(temporary.iterdir()) == []  # gone while the workers still use it: nothing stays after any kill
    again = [answer for _, answer in pool.each(3, data, work.read, [(i,) for i in range(3)])]
    assert {total for _, _, total, _ in again} == {int(codes.sum(dtype=np.int64))}


@pytest.mark.slow
def test_more_workers_and_other_data_sets(pool, work, temporary):
    first, second = table(seed=1), table(seed=2)
    for workers, (codes, data) in ((1, first), (3, first), (2, second), (3, second), (1, first)):
        answers = [answer for _, answer in pool.each(workers, data, work.read, [(i,) for i in range(6)])]
        assert {total for _, _, total, _ in answers} == {int(codes.sum(dtype=np.int64))}
    pool.close()
    assert list(temporary.iterdir()) == []


def test_what_a_worker_writes_is_its_own(pool, work, temporary):
    _, data = table(1000, 2)
    data.extra = np.zeros(1 << 18)
    assert sorted(answer for _, answer in pool.each(1, data, work.write, [(1,), (2,)])) == [1, 3]
    assert data.extra[0] == 0


def test_a_killed_worker_leaves_no_file(pool, work, temporary):
    _, data = table()
    with pytest.raises(RunError, match="SIGKILL"):
        list(pool.each(2, data, work.end, [()]))
    assert list(temporary.iterdir()) == []


def test_without_room_everybody_gets_a_copy(pool, work, temporary, monkeypatch):
    codes, data = table()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sharing.tempfile, "mkstemp", full)
    ((_, answer),) = pool.each(1, data, work.read, [(0,)])
    assert answer[2] == int(codes.sum(dtype=np.int64))


def test_small_data_need_no_file(temporary):
    shared = sharing.Shared(table(100, 3)[1])
    assert not shared.mapped
    assert list(temporary.iterdir()) == []
    assert sharing.received(shared.content).n == 100


@pytest.mark.slow
def test_counts_with_workers_are_those_without(temporary):
    _, data = table(1 << 20, 3)
    options = {"protocols": ["rsfd-grr"], "epsilons": [1.0], "repetitions": 4, "backend": "numpy"}
    one, two = (gpu_rsfd.simulate(data, **options, workers=workers) for workers in (1, 2))
    assert np.array_equal(one.counts, two.counts)
    assert list(temporary.iterdir()) == []
    assert os.path.isdir(temporary)
