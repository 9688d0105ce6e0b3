"""A results file that grows: blocks beside it, chunks copied as they are, extension, and what is read late."""

import json
import threading
from dataclasses import replace
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from command import call, refusal
from gpu_rsfd.store.blocks import Blocks
from gpu_rsfd.store.folder import folder_of
from gpu_rsfd.store.format import chunk_rows

import gpu_rsfd
from gpu_rsfd.backends.cpu.backend import NumpyBackend
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.running import collect
from gpu_rsfd.running.experiments import sweep
from gpu_rsfd.store import compact, files, pieces, reading

DATA = gpu_rsfd.SyntheticDataset(400, (3, 5), "zipf:1", name="mine")
OTHER = gpu_rsfd.SyntheticDataset(300, (4,), name="other")
PROTOCOLS = ["rsfd-grr", "smp-adp"]
OPTIONS = {"epsilons": [1.0, 2.0], "protocols": PROTOCOLS, "seed": 3, "backend": "numpy", "workers": 1}


def direct(data, repetitions, **options):
    return gpu_rsfd.simulate(data, **{**OPTIONS, **options}, repetitions=repetitions)


def same(result, truth):
    assert np.array_equal(result.counts, truth.counts)
    assert np.array_equal(result.reporters, truth.reporters)
    for name in ("none", "clip", "clip-normalize", "simplex"):
        assert np.array_equal(result.mse(name), truth.mse(name))
    assert result.repetitions == truth.repetitions


def small_blocks(monkeypatch, size=3):
    monkeypatch.setattr(collect._Collection, "_size", lambda self, index, first, left, rows: min(size, left))


class StopError(Exception):
    pass


def stop_after(monkeypatch, number, error=StopError):
    """The sweep ends early: after so many blocks, however it is saved."""
    write, made = collect._Collection._write, []

    def stopped(*arguments):
        if len(made) == number:
            raise error
        made.append(write(*arguments))
        return made[-1]

    monkeypatch.setattr(collect._Collection, "_write", stopped)


# ------------------------------------------------------------------------------------------------------- blocks


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3, 4, 7])
def test_blocks_of_any_size_give_the_same_file(tmp_path, monkeypatch, size):
    monkeypatch.setattr("gpu_rsfd.store.format.MOST_ROWS", 4)
    small_blocks(monkeypatch, size)
    results = sweep([DATA, OTHER], repetitions=14, output=tmp_path / "r.h5", save_every=0, **OPTIONS)
    assert results.complete
    assert results.computed == 28
    for data in (DATA, OTHER):
        same(results[data.name], direct(data, 14))
    assert [p.name for p in tmp_path.iterdir()] == ["r.h5"]
    with h5py.File(tmp_path / "r.h5") as file:
        assert file["mine/counts"].chunks == (1, 1, 4, 8)


def test_chunks_are_copied_as_they_are(tmp_path, monkeypatch):
    """Blocks that end where chunks end are never taken apart; what lies across is."""
    monkeypatch.setattr("gpu_rsfd.store.format.MOST_ROWS", 4)
    copied = []
    inner = pieces._copied
    monkeypatch.setattr(pieces, "_copied", lambda *given: copied.append(inner(*given)) or copied[-1])
    small_blocks(monkeypatch, 4)
    same(sweep(DATA, repetitions=16, output=tmp_path / "a.h5", **OPTIONS)["mine"], direct(DATA, 16))
    assert copied
    assert all(copied)
    small_blocks(monkeypatch, 3)
    results = sweep(DATA, repetitions=16, output=tmp_path / "b.h5", save_every=0, **OPTIONS)
    same(results["mine"], direct(DATA, 16))
    assert not all(copied)


def test_a_kill_loses_at_most_a_block(tmp_path, monkeypatch):
    """Nothing is done after a kill: blocks that never came into the file are found by the next run."""
    small_blocks(monkeypatch)
    stop_after(monkeypatch, 4)
    monkeypatch.setattr(compact.Store, "keep_what_is_done", lambda self: None)
    monkeypatch.setattr(compact.Store, "compact", lambda self: False)
    with pytest.raises(StopError):
        sweep(DATA, repetitions=20, output=tmp_path / "r.h5", **OPTIONS)
    assert [p.name for p in tmp_path.iterdir()] == ["r.h5.blocks"]
    monkeypatch.undo()
    results = sweep(DATA, repetitions=20, output=tmp_path / "r.h5", **OPTIONS)
    assert results.computed == 8
    same(results["mine"], direct(DATA, 20))
    assert [p.name for p in tmp_path.iterdir()] == ["r.h5"]


def test_blocks_in_any_order(tmp_path, monkeypatch):
    """A file holds the first repetitions without a gap; blocks behind a gap wait."""
    small_blocks(monkeypatch)
    path = tmp_path / "r.h5"
    every = np.ones((2, 2), bool)
    monkeypatch.setattr(
        collect._Collection,
        "_blocks",
        (lambda inner: lambda self, store, todo, parts=0: inner(
            self, store, [[pieces.Gap(6, 9, every), pieces.Gap(0, 3, every)]], parts))(collect._Collection._blocks),
    )  # fmt: skip
    results = sweep(DATA, repetitions=9, output=path, **OPTIONS)
    assert not results.complete
    same(results["mine"], direct(DATA, 3))
    assert [p.name.split("-")[1:3] for p in folder_of(path).glob("*-*.h5")] == [["6", "9"]]
    monkeypatch.undo()
    results = sweep(DATA, repetitions=9, output=path, **OPTIONS)
    assert results.computed == 3
    same(results["mine"], direct(DATA, 9))


def test_an_early_end_keeps_what_is_done_in_the_file(tmp_path, monkeypatch):
    small_blocks(monkeypatch)
    stop_after(monkeypatch, 5, RunError("a lost worker"))
    with pytest.raises(RunError):
        sweep(DATA, repetitions=20, output=tmp_path / "r.h5", save_every=1000, **OPTIONS)
    same(gpu_rsfd.open_results(tmp_path / "r.h5")["mine"], direct(DATA, 15))
    assert [p.name for p in tmp_path.iterdir()] == ["r.h5"]


def interrupted(path, monkeypatch, repetitions=9, **options):
    with monkeypatch.context() as then:
        small_blocks(then)
        stop_after(then, 2)
        then.setattr(compact.Store, "keep_what_is_done", lambda self: None)
        then.setattr(compact.Store, "compact", lambda self: False)
        with pytest.raises(StopError):
            sweep(DATA, repetitions=repetitions, output=path, **{**OPTIONS, **options})


def test_blocks_of_another_sweep_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "r.h5"
    interrupted(path, monkeypatch)
    before = sorted(p.name for p in folder_of(path).iterdir())
    with pytest.raises(InputError, match=r"(?s)holds blocks of another run.*seed: 3 in the file, 4 asked for"):
        sweep(DATA, repetitions=9, output=path, **{**OPTIONS, "seed": 4})
    assert sorted(p.name for p in folder_of(path).iterdir()) == before
    results = sweep(DATA, repetitions=9, output=path, overwrite=True, **{**OPTIONS, "seed": 4})
    same(results["mine"], direct(DATA, 9, seed=4))


def test_a_folder_of_somebody_else_is_refused(tmp_path):
    (tmp_path / "r.h5.blocks").mkdir()
    (tmp_path / "r.h5.blocks" / "letter.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(InputError, match="is a folder of yours"):
            sweep(DATA, repetitions=2, output=tmp_path / "r.h5", overwrite=overwrite, **OPTIONS)
    (tmp_path / "r.h5.blocks" / "sweep.json").write_text("[]")
    with pytest.raises(InputError, match=r"has no valid sweep\.json"):
        sweep(DATA, repetitions=2, output=tmp_path / "r.h5", overwrite=True, **OPTIONS)
    assert (tmp_path / "r.h5.blocks" / "letter.txt").read_text() == "mine"


def block_of(path, first, stop):
    (found,) = folder_of(path).glob(f"*-{first}-{stop}-*.h5")
    return found


class Lines(collect.Silent):
    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)


@pytest.mark.parametrize("damage", ["cut", "byte", "copy", "empty"])
def test_a_damaged_block_is_set_aside(tmp_path, monkeypatch, damage):
    """Its repetitions are computed again, and one line says so."""
    path = tmp_path / "r.h5"
    interrupted(path, monkeypatch)
    block, content = block_of(path, 3, 6), block_of(path, 3, 6).read_bytes()
    with h5py.File(block) as file:
        place = file["counts"].id.get_chunk_info(0).byte_offset + 3
    other = block_of(path, 0, 3).read_bytes()
    flipped = content[:place] + bytes([content[place] ^ 8]) + content[place + 1 :]
    block.write_bytes({"cut": content[:500], "byte": flipped, "copy": other, "empty": b""}[damage])
    said = Lines()
    results = sweep(DATA, repetitions=9, output=path, reporter=said, **OPTIONS)
    assert results.computed == 6
    same(results["mine"], direct(DATA, 9))
    (line,) = (line for line in said.lines if "damaged" in line)
    assert block.name in line
    assert "computed again" in line


def test_a_block_that_strayed_in_is_named(tmp_path, monkeypatch):
    interrupted(tmp_path / "r.h5", monkeypatch)
    interrupted(tmp_path / "s.h5", monkeypatch, seed=4)
    block = block_of(tmp_path / "r.h5", 3, 6)
    block.write_bytes(block_of(tmp_path / "s.h5", 3, 6).read_bytes())
    with pytest.raises(InputError, match=r"-3-6-.*\.h5 is of another run"):
        sweep(DATA, repetitions=9, output=tmp_path / "r.h5", **OPTIONS)


# ---------------------------------------------------------------------------------------------------- extension


def test_more_repetitions_extend_a_finished_sweep(tmp_path):
    path = tmp_path / "r.h5"
    sweep([DATA, OTHER], repetitions=5, output=path, **OPTIONS)
    results = sweep([DATA, OTHER], repetitions=12, output=path, **OPTIONS)
    assert results.computed == 14
    for data in (DATA, OTHER):
        same(results[data.name], direct(data, 12))
    before = path.read_bytes()
    with pytest.raises(InputError, match="repetitions: the file has 12, 5 asked for"):
        sweep([DATA, OTHER], repetitions=5, output=path, **OPTIONS)
    assert path.read_bytes() == before


def test_blocks_are_extended_too(tmp_path, monkeypatch):
    interrupted(tmp_path / "r.h5", monkeypatch, repetitions=9)
    results = sweep(DATA, repetitions=11, output=tmp_path / "r.h5", **OPTIONS)
    assert results.computed == 5
    same(results["mine"], direct(DATA, 11))


def test_another_first_repetition_is_another_sweep(tmp_path):
    sweep(DATA, repetitions=range(2, 6), output=tmp_path / "r.h5", **OPTIONS)
    with pytest.raises(InputError, match="holds another sweep"):
        sweep(DATA, repetitions=range(0, 8), output=tmp_path / "r.h5", **OPTIONS)
    same(sweep(DATA, repetitions=range(2, 9), output=tmp_path / "r.h5", **OPTIONS)["mine"], direct(DATA, range(2, 9)))


@pytest.mark.slow
def test_the_paper_after_a_quick_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["paper", "--sampler", "marginals", "--epsilon", "1", "--no-plot", "--quiet"]
    assert call(monkeypatch, *command, "--quick") == 0
    quick = gpu_rsfd.open_results("paper.h5")
    first = {name: result.counts for name, result in quick.items()}
    assert call(monkeypatch, *command, "--repetitions", "13") == 0
    results = gpu_rsfd.open_results("paper.h5")
    assert results.complete
    for name, result in results.items():
        assert len(result.repetitions) == 13
        assert np.array_equal(result.counts[:, :, :10], first[name])


# ------------------------------------------------------------------------------------------------------ keep


@pytest.mark.slow
def test_errors_alone(tmp_path, monkeypatch, capsys):
    path = tmp_path / "r.h5"
    results = sweep(DATA, repetitions=7, output=path, keep="mse", **OPTIONS)
    truth = direct(DATA, 7)
    for result in (results["mine"], gpu_rsfd.open_results(path)["mine"]):
        assert not result.has_counts
        assert np.array_equal(result.mse("clip"), truth.mse("clip"))
        assert np.array_equal(result.reporters, truth.reporters)
        with pytest.raises(InputError, match=r"r\.h5 holds errors only \(--keep mse\)"):
            result.counts  # noqa: B018
    assert sweep(DATA, repetitions=9, output=path, keep="mse", **OPTIONS).computed == 2
    assert np.array_equal(gpu_rsfd.open_results(path)["mine"].mse(), direct(DATA, 9).mse())
    with pytest.raises(InputError, match="keep: mse in the file, counts asked for"):
        sweep(DATA, repetitions=9, output=path, **OPTIONS)
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, "show", "r.h5") == 0
    assert call(monkeypatch, "plot", "r.h5") == 0
    (line,) = refusal(monkeypatch, capsys, tmp_path, ["sweep", "--keep", "all"])
    assert "keep='all' is unknown; available: counts, mse" in line


def test_errors_alone_open_in_xarray(tmp_path):
    xarray = pytest.importorskip("xarray")
    sweep(DATA, repetitions=7, output=tmp_path / "r.h5", keep="mse", **OPTIONS)
    with xarray.open_dataset(tmp_path / "r.h5", engine="h5netcdf", group="mine") as dataset:
        assert "counts" not in dataset
        assert dataset.mse.dims == ("protocol", "epsilon", "repetition", "postprocess")


# ------------------------------------------------------------------------------------------------- memory, reading


def test_few_counts_are_in_memory(tmp_path, monkeypatch):
    """Marginals draws repetitions together: memory is saved by protocols, and the integers are the same."""
    monkeypatch.setattr("gpu_rsfd.measure.frequencies.BLOCK_BYTES", 1)
    seen = []
    from gpu_rsfd.backends.exact.samplers import Sampler

    count = Sampler.count
    monkeypatch.setattr(
        Sampler,
        "count",
        lambda self, plan, *rest: seen.append(plan.asked.any(axis=1).tolist()) or count(self, plan, *rest),
    )
    options = {"epsilons": [1.0, 2.0], "protocols": ["rsfd-grr", "smp-adp", "spl-oue"], "sampler": "marginals"}
    results = sweep(DATA, repetitions=7, output=tmp_path / "r.h5", **options)
    assert seen == [[True, False, False], [False, True, False], [False, False, True]]
    same(results["mine"], gpu_rsfd.simulate(DATA, repetitions=7, **options))


def test_large_arrays_are_read_when_asked_for(tmp_path, monkeypatch):
    path = tmp_path / "r.h5"
    sweep(DATA, repetitions=6, output=path, **OPTIONS)
    monkeypatch.setattr(reading, "AT_ONCE", 0)
    read = []
    inner = reading.GroupReader.repetitions
    monkeypatch.setattr(
        reading.GroupReader, "repetitions", lambda self, *given: read.append(given[-1]) or inner(self, *given)
    )
    result = gpu_rsfd.open_results(path)["mine"]
    assert not read
    assert result.has_counts
    assert result.mse().shape == (2, 2, 6)
    assert read == [["mse"]]
    sweep(DATA, repetitions=8, output=path, **OPTIONS)  # the file grows: what was opened stays what it was
    same(result, direct(DATA, 6))
    assert len(read) == 3
    late = gpu_rsfd.open_results(path)["mine"]
    with h5py.File(path, "r+") as file:
        file["mine/counts"][0, 0, 0, 0] = -1
    with pytest.raises(InputError, match=r"r\.h5 is damaged: mine/counts has -1"):
        late.counts  # noqa: B018
    late = gpu_rsfd.open_results(path)["mine"]
    sweep(DATA, repetitions=8, output=path, overwrite=True, **{**OPTIONS, "seed": 5})
    with pytest.raises(InputError, match="holds another run than when it was opened"):
        late.reporters  # noqa: B018


def test_results_can_be_changed_and_copied(tmp_path, monkeypatch):
    import copy
    import pickle

    sweep(DATA, repetitions=4, output=tmp_path / "r.h5", **OPTIONS)
    monkeypatch.setattr(reading, "AT_ONCE", 0)
    result = gpu_rsfd.open_results(tmp_path / "r.h5")["mine"]
    for other in (copy.copy(result), pickle.loads(pickle.dumps(result)), replace(result, errors=None)):
        same(other, direct(DATA, 4))
    with pytest.raises(AttributeError):
        result.nothing  # noqa: B018


@pytest.mark.parametrize("values,total,unit,rows", [
    (5000, 200, 52, 52), (5000, 200, 1, 26), (50, 100, 100, 100), (50, 10, 100, 10),
    (2, 10**6, 1, 1024), (10**6, 100, 1, 1), (7000, 100, 37, 37),
])  # fmt: skip
def test_chunks(values, total, unit, rows):
    header = SimpleNamespace(plan=SimpleNamespace(values=values))
    assert chunk_rows(header, total, unit) == rows


# -------------------------------------------------------------------------------------------------------- portable


def test_a_file_that_is_being_read_is_waited_for(tmp_path, monkeypatch):
    """As Windows does: an open file can't be replaced."""
    tries, replaced = [], files.os.replace

    def refused(a, b):
        tries.append(a)
        if len(tries) < 3:
            raise PermissionError(13, "in use")
        replaced(a, b)

    class Windows:
        name = "nt"

        def __getattr__(self, attribute):
            return refused if attribute == "replace" else getattr(__import__("os"), attribute)

    monkeypatch.setattr(files, "os", Windows())
    files.replace_file(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"new"
    assert len(tries) == 3


def test_folders_that_cannot_be_opened(tmp_path, monkeypatch):
    opened = files.os.open

    def refused(path, *rest):
        if path == tmp_path:
            raise PermissionError(13, "a folder")
        return opened(path, *rest)

    monkeypatch.setattr(files.os, "open", refused)
    files.replace_file(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"new"


@pytest.mark.slow
def test_nothing_needs_posix():
    """No module imports what only POSIX has."""
    import ast
    from pathlib import Path

    only = {"fcntl", "resource", "termios", "pwd", "grp", "pty", "tty"}
    for path in Path(gpu_rsfd.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not only & set(names), path


def test_the_mark_names_the_spec(tmp_path, monkeypatch):
    interrupted(tmp_path / "r.h5", monkeypatch)
    document = json.loads((folder_of(tmp_path / "r.h5") / "sweep.json").read_text())
    assert document["spec"]["seed"] == 3
    assert len(Blocks(tmp_path / "r.h5", document["spec"]).found()) == 2


def test_a_block_is_written_while_the_next_is_counted(tmp_path, monkeypatch):
    """A device need not wait: the first block can't be finished before the second one is being counted."""
    second, inner, counted = threading.Event(), collect.write_block, []

    def put(*arguments):
        assert second.wait(20), "the next block was not begun"
        inner(*arguments)

    class Backend(NumpyBackend):
        def count(self, *arguments):
            counted.append(threading.current_thread())
            if len(counted) > 1:
                second.set()
            return super().count(*arguments)

    monkeypatch.setattr(collect, "write_block", put)
    monkeypatch.setattr(collect._Collection, "_size", lambda self, index, first, left, rows: min(2, left))
    with Backend(workers=1) as backend:
        results = gpu_rsfd.sweep(
            "syn1", epsilons=1.0, protocols="smp-grr", repetitions=6, output=tmp_path / "r.h5", backend=backend
        )
    assert results.computed == 6
    assert set(counted) == {threading.main_thread()}
    alone = gpu_rsfd.simulate("syn1", epsilons=1.0, protocols="smp-grr", repetitions=6, backend="numpy", workers=1)
    assert np.array_equal(results["syn1"].counts, alone.counts)
