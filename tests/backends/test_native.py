"""The native backend counts what NumPy counts, in any build, with any threads, pieces and segments."""

import ctypes
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import native_builds
import numpy as np
import pytest
from native_builds import BUILDS, COMPILER, SANITIZED, compiled, first_difference, needs_compiler

import gpu_rsfd
from gpu_rsfd import Dataset, SyntheticDataset
from gpu_rsfd.backends.cpu.backend import NumpyBackend
from gpu_rsfd.backends.native import backend as native
from gpu_rsfd.backends.native import build
from gpu_rsfd.backends.native.backend import NativeBackend
from gpu_rsfd.backends.native.tables import Tables, declare
from gpu_rsfd.backends.pool import Columns
from gpu_rsfd.backends.reference import ON_DEVICES
from gpu_rsfd.planning import Plan

pytestmark = needs_compiler

DATA = SyntheticDataset(3000, (5, 3, 300), "zipf:1.1", seed=4)
PLAN = Plan.of(DATA.domain, ON_DEVICES, [0.5, 2.0])
REPETITIONS = range(3, 9, 2)


def counted(backend, data=DATA, plan=PLAN, repetitions=REPETITIONS, **options):
    with backend:
        return backend.count(plan, data, 9, repetitions, **options)


def same(ours, theirs):
    return all(np.array_equal(a, b) for a, b in zip([*ours[0], ours[1]], [*theirs[0], theirs[1]], strict=True))


@pytest.fixture(scope="module")
def expected():
    return counted(NumpyBackend(workers=1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_cases_made_at_random(seed):
    assert first_difference(build.built().library, 12, seed) == ""


@pytest.mark.slow
def test_many_cases_made_at_random():
    assert first_difference(build.built().library, 200, 77) == ""


def library_of(name, folder):
    flags, macros, width = BUILDS[name]
    missing = [macro for macro in macros if f"#define {macro} 1" not in COMPILER.macros]
    if missing:
        pytest.skip(f"this CPU has no {', '.join(missing)}: a build for it can't be run")
    library = declare(ctypes.CDLL(str(compiled(folder, flags))))
    assert library.rsfd_build().decode() == width
    return library


@pytest.mark.parametrize(
    "name", [name if name == "plain" else pytest.param(name, marks=pytest.mark.slow) for name in BUILDS]
)
def test_every_width(name, tmp_path):
    assert first_difference(library_of(name, tmp_path), 3 if name == "plain" else 8, 5) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "avx2", "avx512-ifma", "avx512-amd"])
def test_no_access_outside_and_nothing_undefined(name, tmp_path):
    flags, macros, _ = BUILDS[name]
    asan = subprocess.run(
        [*COMPILER.command, "-print-file-name=libasan.so"], capture_output=True, text=True
    ).stdout.strip()
    if not Path(asan).is_file():
        pytest.skip("the compiler has no libasan")
    if any(f"#define {macro} 1" not in COMPILER.macros for macro in macros):
        pytest.skip("this CPU can't run it")
    path = compiled(tmp_path, (*flags, *SANITIZED))
    environment = {**os.environ, "LD_PRELOAD": asan, "ASAN_OPTIONS": "detect_leaks=0"}
    command = [sys.executable, native_builds.__file__, str(path), "15"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


MUTANTS = [
    ("r < 10; r++) philox_round", "r < 9; r++) philox_round"),
    ("undecided |= place[t].partial ? equal & mine : equal", "undecided |= 0 & equal"),
    ("h >= keeps[step]) step++", "h > keeps[step]) step++"),
    ("(i ^ low) << 1 | low", "(i ^ low) << 1"),
    ("place[t].partial ? equal & mine", "1 ? equal & mine"),
    ("y - ((V)(y >= p->n) & p->n)", "y - ((V)(y > p->n) & p->n)"),
    ("still += left[i] >= p->n", "still += left[i] > p->n"),
    ("< all(largest)", "< all(largest / 2)"),
]


@pytest.mark.slow
@pytest.mark.parametrize("old,new", MUTANTS)
def test_a_mutant_is_refused(old, new, tmp_path):
    """The cases of the first use are enough to notice a mistake of the compiler's, or of ours."""
    text = build.SOURCE.read_text(encoding="utf-8")
    assert text.count(old) == 1
    library = declare(ctypes.CDLL(str(compiled(tmp_path, BUILDS["plain"][0], text.replace(old, new)))))
    assert build.wrong_counts(library)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("cost", [2e4, 1e6, native.PIECE_COST])
def test_threads_and_pieces_change_nothing(expected, monkeypatch, workers, cost):
    monkeypatch.setattr(native, "PIECE_COST", cost)
    monkeypatch.setattr(native, "INLINE_COST", 0)
    done = []
    assert same(counted(NativeBackend(workers), progress=done.append), expected)
    assert sum(done) == PLAN.positions(DATA.n) * len(REPETITIONS)
    assert cost > 2e4 or len(done) > 20


@pytest.mark.parametrize("most", [1, 64 * 4 * 5, 64 * 4 * 40])
def test_segments_change_nothing(expected, monkeypatch, most):
    monkeypatch.setattr(native, "DRAWN_AT_A_TIME", 128)
    with NativeBackend(2, segment_bytes=most) as backend:
        held = [h for h, _ in backend._segments(DATA)]
        assert max(sum(column.nbytes for column in h.columns) for h in held) <= max(most, 64 * 4)
        assert len(held) == max(-(-DATA.n // (64 * max(1, most // 256))), 1)
        assert same(backend.count(PLAN, DATA, 9, REPETITIONS), expected)


def test_a_table_is_used_where_it_is(expected):
    table = Dataset(np.stack([DATA.column(j, 0, DATA.n) for j in range(DATA.d)], axis=1), DATA.domain)
    with NativeBackend(2, segment_bytes=1) as backend:
        assert same(backend.count(PLAN, table, 9, REPETITIONS), expected)
        [(held, _)] = backend._segments(table)
        assert all(np.shares_memory(a, b) for a, b in zip(held.columns, table._columns, strict=True))
        assert backend._held[0] is table


def test_a_data_set_of_a_class_in_a_script_uses_all_threads(expected):
    class Mine(Dataset):
        def column(self, j, start, stop):
            return DATA.column(j, start, stop).astype(np.int64)

    data = Mine(np.zeros((DATA.n, DATA.d), int), DATA.domain)
    for most in (1 << 20, 5000):
        assert same(counted(NativeBackend(3, segment_bytes=most), data), expected)
    result = gpu_rsfd.simulate(data, epsilons=1.0, protocols="rsfd-grr", repetitions=2, workers=2)
    assert np.array_equal(
        result.counts,
        gpu_rsfd.simulate(DATA, epsilons=1.0, protocols="rsfd-grr", repetitions=2, backend="numpy", workers=1).counts,
    )


@pytest.mark.parametrize("codes,message", [
    (np.full(100, 5), "attribute 0 of 'data' has codes outside 0 … 4"),
    (np.full(100, -1), "attribute 0 of 'data' has codes outside 0 … 4"),
    (np.zeros(99, int), r"attribute 0 of 'data' has codes of shape \(99,\), not \(100,\)"),
])  # fmt: skip
def test_bad_codes_never_reach_the_tables(codes, message):
    class Bad(Dataset):
        def column(self, j, start, stop):
            return codes

    with pytest.raises(ValueError, match=message):
        counted(NativeBackend(1), Bad(np.zeros((100, 1), int), (5,)), Plan.of((5,), ["rsfd-grr"], [1.0]))


def test_an_unknown_noise_is_refused():
    class Sets:
        pass

    first = PLAN.attributes[0]
    recipe = replace(first.recipes[0], noise=Sets())
    plan = replace(PLAN, attributes=(replace(first, recipes=(recipe,)), *PLAN.attributes[1:]))
    with pytest.raises(ValueError, match=r"the native backend does not know the noise .*Sets.*; it knows: Bits, Keep"):
        counted(NativeBackend(1), plan=plan)


def test_it_can_be_stopped(expected, monkeypatch):
    tables = Tables(PLAN.attributes, PLAN.d, PLAN.assignment)
    with NativeBackend(1) as backend:
        [(held, groups)] = backend._segments(DATA)
        given_up = np.ones(1, np.int32)
        counts, _ = tables.count(
            backend._library, held, DATA.n, 9, REPETITIONS, groups, slice(0, PLAN.d), True, given_up
        )
    assert not any(table.any() for table in counts)

    count, flags = Tables.count, []

    def seen(self, *arguments):
        flags.append(arguments[-1])
        return count(self, *arguments)

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Tables, "count", seen)

    with NativeBackend(2) as backend:
        with pytest.raises(KeyboardInterrupt):
            backend.count(PLAN, DATA, 9, range(100), interrupt)
        assert all(flag[0] for flag in flags)  # what was under way was told to end
        assert same(backend.count(PLAN, DATA, 9, REPETITIONS), expected)


def test_another_plan_and_another_data_set(expected):
    other, plan = SyntheticDataset(70, (4,), seed=1), Plan.of((4,), ["rsfd-oue-r"], [1.0], "balanced")
    with NativeBackend(2) as backend:
        for _ in range(2):
            assert same(backend.count(PLAN, DATA, 9, REPETITIONS), expected)
            right = counted(NumpyBackend(workers=1), other, plan)
            assert same(backend.count(plan, other, 9, REPETITIONS), right)


@pytest.mark.parametrize("workers", [1, 2])
def test_threads_of_the_caller_share_a_backend(expected, workers):
    """As those of a Dask worker do."""
    other, plan = SyntheticDataset(7000, (4, 3), seed=1), Plan.of((4, 3), ["rsfd-oue-r"], [1.0], "balanced")
    right = counted(NumpyBackend(workers=1), other, plan)
    wanted = [(PLAN, DATA, expected), (plan, other, right)] * 10
    with NativeBackend(workers) as backend, ThreadPoolExecutor(4) as threads:
        found = threads.map(lambda job: backend.count(job[0], job[1], 9, REPETITIONS), wanted)
        assert all(same(ours, theirs) for ours, (*_, theirs) in zip(found, wanted, strict=True))


@pytest.mark.parametrize("users", [2**32 + 65, 2**53])
def test_the_last_of_very_many_users(users):
    """Balanced assignment of more than 2**32 users is another arithmetic."""
    from gpu_rsfd.backends.cpu.counting import Task, run_task
    from gpu_rsfd.backends.native.tables import Held

    start = (users - 1) // 64 * 64 - 640
    attributes = Plan.of((3, 4, 2), ("rsfd-grr", "smp-oue", "rsfd-oue-r"), [1.0]).attributes
    columns = [np.arange(users - start, dtype=np.uint8) % np.uint8(k) for k in (3, 4, 2)]
    for assignment in ("uniform", "balanced"):
        task = Task(start, users, users, 3, assignment, (5,), attributes, True)
        theirs = run_task(lambda j, *_: columns[j], task, 1)
        tables = Tables(attributes, 3, assignment)
        groups = slice(start // 64, -(-users // 64))
        ours = tables.count(
            build.built().library,
            Held(groups.start, columns),
            users,
            1,
            (5,),
            groups,
            slice(0, 3),
            True,
            np.zeros(1, np.int32),
        )
        assert same(ours, (theirs.counts, theirs.sampled))


def test_tasks_of_a_cluster(expected):
    """Where workers share a repetition, each counts tasks of the NumPy backend in C."""
    from gpu_rsfd.backends.native.backend import run_task

    columns, engine = Columns(DATA), NumpyBackend(workers=2, chunk_users=640)
    counts, sampled = [np.zeros_like(table) for table in expected[0]], np.zeros_like(expected[1])
    tasks = list(engine.tasks(PLAN, DATA.n, REPETITIONS))
    assert len(tasks) > 4
    for task in tasks:
        rows = slice(REPETITIONS.index(task.repetitions[0]), REPETITIONS.index(task.repetitions[-1]) + 1)
        found = run_task(columns, task, 9)
        for attribute, table in zip(task.attributes, found.counts, strict=True):
            counts[attribute.index][:, rows] += table
        sampled[rows, task.attributes[0].index : task.attributes[-1].index + 1] += found.sampled
    assert same((counts, sampled), expected)


def test_what_it_says_of_itself():
    with NativeBackend(2) as backend:
        assert (backend.device, backend.batch_multiple(100), backend.noises) == ("2 CPU threads", 2, native.NOISES)
    assert NativeBackend(1).device == "1 CPU thread"
    with pytest.raises(ValueError, match="workers=0 must be"):
        NativeBackend(0)


def test_memory_is_that_of_a_segment(monkeypatch):
    assert native.CACHED_BYTES == 256 << 20
    made = []
    monkeypatch.setattr(native, "draw", lambda *_: None)
    data = SyntheticDataset(10**8, (300,) * 20)
    with NativeBackend(1) as backend:
        for held, groups in backend._segments(data):
            made.append((sum(column.nbytes for column in held.columns), groups))
            if len(made) == 2:
                break
    assert max(size for size, _ in made) <= 256 << 20
    assert made[0][1].stop == made[1][1].start


@pytest.mark.skipif(shutil.which("cc") is None, reason="no program is called cc")
def test_another_process_needs_no_compilation(tmp_path):
    program = "from gpu_rsfd.backends.native import build; print(build.describe()['cache'])"
    build.built()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == str(build.built().path)
    assert done.stderr == ""
