"""Files from strangers: they are refused in one line, whatever they declare, and read nothing but themselves."""

import io
import json
import os
import random
import resource

import h5py
import numpy as np
import pytest
from command import call, start
from gpu_rsfd.store.folder import folder_of

import gpu_rsfd
from gpu_rsfd.cli.terminal import Guarded, escaped
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.running.experiments import merge, sweep
from gpu_rsfd.store import reading
from gpu_rsfd.store.identity import digest_of
from gpu_rsfd.untrusted import read_regular

DATA = gpu_rsfd.SyntheticDataset(400, (3, 5), name="mine")
OPTIONS = {"epsilons": [1.0, 2.0], "protocols": ["rsfd-grr", "smp-adp"], "seed": 3, "backend": "numpy", "workers": 1}
FUZZED = 200


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    path = tmp_path_factory.mktemp("valid") / "r.h5"
    sweep(DATA, repetitions=4, output=path, **OPTIONS)
    return path.read_bytes()


@pytest.fixture
def file(valid, tmp_path):
    path = tmp_path / "r.h5"
    path.write_bytes(valid)
    return path


def parts(path, number=2, repetitions=6):
    for i in range(1, number + 1):
        sweep(DATA, repetitions=repetitions, output=path, part=(i, number), **OPTIONS)
    return sorted(folder_of(path).glob("*-*-*.h5"))


def moved(path, name, elsewhere):
    """The content of an array, put into another file."""
    with h5py.File(path, "r+") as file:
        content = file["mine"][name][()]
        del file["mine"][name]
    with h5py.File(elsewhere, "w") as other:
        other[name] = content
    return content


def external_link(path, folder):
    moved(path, "counts", folder / "secret.h5")
    with h5py.File(path, "r+") as file:
        file["mine/counts"] = h5py.ExternalLink("secret.h5", "counts")


def link_to_a_pipe(path, folder):
    os.mkfifo(folder / "pipe")
    with h5py.File(path, "r+") as file:
        del file["mine/counts"]
        file["mine/counts"] = h5py.ExternalLink("pipe", "counts")


def soft_link(path, folder):
    with h5py.File(path, "r+") as file:
        file.move("mine/counts", "other")
        file["mine/counts"] = h5py.SoftLink("/other")


def group_elsewhere(path, folder):
    (folder / "secret.h5").write_bytes(path.read_bytes())
    with h5py.File(path, "r+") as file:
        del file["mine"]
        file["mine"] = h5py.ExternalLink("secret.h5", "mine")


def external_storage(path, folder):
    content = moved(path, "counts", folder / "secret.h5")
    (folder / "secret.bin").write_bytes(content.tobytes())
    with h5py.File(path, "r+") as file:
        external = [(str(folder / "secret.bin"), 0, content.nbytes)]
        file["mine"].create_dataset("counts", content.shape, content.dtype, external=external)


def virtual(path, folder):
    content = moved(path, "counts", folder / "secret.h5")
    layout = h5py.VirtualLayout(content.shape, content.dtype)
    layout[...] = h5py.VirtualSource(str(folder / "secret.h5"), "counts", content.shape)
    with h5py.File(path, "r+") as file:
        file["mine"].create_virtual_dataset("counts", layout)


def text_elsewhere(path, folder):
    layout = h5py.VirtualLayout((2,), h5py.string_dtype())
    moved(path, "attribute", folder / "secret.h5")
    layout[...] = h5py.VirtualSource(str(folder / "secret.h5"), "attribute", (2,))
    with h5py.File(path, "r+") as file:
        file["mine"].create_virtual_dataset("attribute", layout)


@pytest.mark.parametrize("trick,words", [
    (external_link, "counts is a link"),
    (link_to_a_pipe, "counts is a link"),
    (soft_link, "counts is a link"),
    (group_elsewhere, "mine is a link"),
    (external_storage, "mine/counts is stored in other files"),
    (virtual, "mine/counts is stored in other files"),
    (text_elsewhere, "mine/attribute is stored in other files"),
])  # fmt: skip
def test_nothing_is_read_from_elsewhere(file, tmp_path, trick, words):
    trick(file, tmp_path)
    with pytest.raises(InputError, match=words) as refused:
        gpu_rsfd.open_results(file)
    assert str(refused.value).startswith(f"{file} is damaged: ")
    assert "\n" not in str(refused.value)


def billion(path):
    """A few kilobytes that declare 1e9 repetitions, signed as it should be."""
    number = 10**9
    with h5py.File(path, "r+") as file:
        spec = json.loads(file.attrs["spec"])
        file.attrs["spec"] = json.dumps({**spec, "repetitions": [0, number, 1]})
        file.attrs["sha256"] = reading.attributes_digest({x: file.attrs[x] for x in reading.ATTRIBUTES})
        for name in ("counts", "reporters", "mse", "repetition"):
            node = file["mine"][name]
            shape = (number,) if name == "repetition" else (*node.shape[:2], number, *node.shape[3:])
            dtype, chunks = node.dtype, (1024,) if name == "repetition" else (1, 1, 1024, *node.shape[3:])
            del file["mine"][name]
            file["mine"].create_dataset(name, shape, dtype, chunks=chunks, compression="gzip")


def shared_text(path):
    """All labels name one large text."""
    with h5py.File(path, "r+") as file:
        del file["mine/value"]
        node = file["mine"].create_dataset("value", (8,), h5py.string_dtype())
        node[0] = "x" * 300_000
    image = bytearray(path.read_bytes())
    at = path.read_bytes().find((300_000).to_bytes(4, "little"), 0)  # a reference: length, address, index
    with h5py.File(path, "r") as file:
        first = file["mine/value"].id.get_offset()
    assert image[first : first + 4] == (300_000).to_bytes(4, "little"), at
    for i in range(1, 8):
        image[first + 16 * i : first + 16 * (i + 1)] = image[first : first + 16]
    path.write_bytes(image)


def many_specs(path):
    with h5py.File(path, "r+") as file:
        del file.attrs["device"]
        file.attrs.create("device", ["x" * 1000] * 1000, dtype=h5py.string_dtype())


@pytest.mark.parametrize("trick,words", [
    (billion, "declares 1[26]0,000,000,000 bytes|declares [0-9,]+ bytes, but the file has only"),
    (shared_text, "more text than the file has bytes"),
    (many_specs, "device can't be read .is not one value."),
])  # fmt: skip
def test_nothing_is_allocated_that_is_not_there(file, trick, words):
    trick(file)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=words):
        gpu_rsfd.open_results(file)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


def test_an_unused_array_is_not_read(tmp_path):
    codes = np.arange(20).reshape(10, 2) % 3
    np.savez_compressed(tmp_path / "t.npz", codes=codes, unused=np.zeros(1 << 25))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert gpu_rsfd.load_table(tmp_path / "t.npz").n == 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 << 10


@pytest.mark.parametrize("trick,words", [
    (lambda file: file.update(codes=h5py.ExternalLink("mine.h5", "codes")), "codes is a link"),
    (lambda file: file.create_dataset("codes", (20,), "i8", external=[("mine.bin", 0, 160)]), "stored in other files"),
    (lambda file: file.create_dataset("codes", (10**8, 2), "i8", chunks=(1024, 2)), "declares 1,600,000,000 bytes"),
])  # fmt: skip
def test_data_is_read_from_its_own_file(tmp_path, trick, words):
    codes = np.arange(20).reshape(10, 2) % 3
    with h5py.File(tmp_path / "mine.h5", "w") as file:
        file["codes"] = codes
    (tmp_path / "mine.bin").write_bytes(codes.tobytes())
    assert gpu_rsfd.load_table(tmp_path / "mine.h5").n == 10
    with h5py.File(tmp_path / "given.h5", "w") as file:
        trick(file)
    with pytest.raises(InputError, match=rf"given\.h5 is not a readable HDF5 file .*{words}"):
        gpu_rsfd.load_table(tmp_path / "given.h5")


# ------------------------------------------------------------------------------------------------------- the folder


def signed(block, **changes):
    """A block with another description, signed as it should be."""
    with h5py.File(block, "r+") as file:
        document = {**json.loads(file.attrs["block"]), **changes}
        file.attrs["block"], file.attrs["sha256"] = json.dumps(document), digest_of(document)


def shorter(block):
    with h5py.File(block, "r+") as file:
        content = file["mse"][:, :, :-1]
        del file["mse"]
        file["mse"] = content


def negative(block):
    with h5py.File(block, "r+") as file:
        file["counts"][0, 0, 0, 0] = -7


def linked(block):
    with h5py.File(block, "r+") as file:
        file["more"] = h5py.ExternalLink("elsewhere.h5", "/")


def huge(block):
    with h5py.File(block, "r+") as file:
        shape = file["counts"].shape
        del file["counts"]
        file.create_dataset("counts", (*shape[:2], shape[2], 5), "i8", chunks=(1, 1, 1, 5), compression="gzip")


def pipe(block):
    block.unlink()
    os.mkfifo(block)


@pytest.mark.parametrize("damage", [
    lambda block: signed(block, seconds=float("nan")),
    lambda block: signed(block, first=0, stop=10**12),
    lambda block: signed(block, cells=7),
    lambda block: signed(block, cells="[" * 3000),
    shorter, negative, linked, huge, pipe,
    lambda block: block.write_bytes(b""),
])  # fmt: skip
def test_a_block_that_cannot_be_right_is_set_aside(tmp_path, damage):
    """The others are used; merge names what is missing, and a sweep computes it again."""
    path = tmp_path / "r.h5"
    block = parts(path)[-1]
    damage(block)
    with pytest.raises(RunError, match=r"(?s)not complete; missing repetitions.*part 2 of 2\n.*is damaged \(") as said:
        merge(path)
    assert block.name in str(said.value)
    results = sweep(DATA, repetitions=6, output=path, **OPTIONS)
    assert 0 < results.computed < 6
    assert np.array_equal(results["mine"].counts, gpu_rsfd.simulate(DATA, repetitions=6, **OPTIONS).counts)
    assert {p.name for p in tmp_path.iterdir()} <= {"r.h5", "r.h5.blocks"}


def test_a_copy_under_another_name_is_no_block(tmp_path):
    path = tmp_path / "r.h5"
    first, second = parts(path)
    second.write_bytes(first.read_bytes())
    with pytest.raises(RunError, match=r"(?s)not complete.*it holds what belongs in"):
        merge(path)


def test_a_block_that_may_not_be_read_is_not_damaged(tmp_path, monkeypatch):
    path = tmp_path / "r.h5"
    first, _ = parts(path)
    for error, kind in ((PermissionError(13, "Permission denied"), InputError), (OSError(5, "I/O error"), RunError)):

        def refused(block, most=None, error=error):
            if block == first:
                raise error
            return read_regular(block, most)

        monkeypatch.setattr("gpu_rsfd.store.blocks.read_regular", refused)
        with pytest.raises(kind, match="can't be read: "):
            merge(path)
        assert first.exists()
    monkeypatch.undo()
    assert merge(path).complete


@pytest.mark.parametrize("content", [
    "", "[" * 100_000, "{}", "[]", "null", '{"spec": 1}', '{"spec": {}}', '{"spec": {"datasets": 3}}',
    '{"spec": {"datasets": [{"name": "a"}], "protocols": ["x"], "epsilons": [1], "repetitions": [0, 1, 1]}}',
    "1" * 5000, "\x00",
])  # fmt: skip
def test_a_mark_that_says_nothing(tmp_path, content):
    path = tmp_path / "r.h5"
    parts(path, 1, 2)
    (folder_of(path) / "sweep.json").write_text(content)
    for work in (lambda: merge(path), lambda: sweep(DATA, repetitions=2, output=path, **OPTIONS)):
        with pytest.raises(InputError, match=r"sweep\.json") as refused:
            work()
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("number", [10**12, -3, True, 1.5, "2", None])
def test_any_number_of_parts(tmp_path, number):
    path = tmp_path / "r.h5"
    sweep(DATA, repetitions=6, output=path, part=(1, 2), **OPTIONS)
    mark = folder_of(path) / "sweep.json"
    mark.write_text(json.dumps({**json.loads(mark.read_text()), "parts": number}))
    with pytest.raises(RunError, match="not complete; missing repetitions"):
        merge(path)


# ---------------------------------------------------------------------------------------------------------- fuzzing


@pytest.mark.slow
def test_mutated_files_and_blocks(valid, tmp_path):
    """Bytes of a file, of a block or of the mark are changed; signed or not, nobody sees a traceback."""
    rng = random.Random(21)
    block = parts(tmp_path / "p.h5", 1, 2)[0]
    mark = folder_of(tmp_path / "p.h5") / "sweep.json"
    contents = {tmp_path / "r.h5": valid, block: block.read_bytes(), mark: mark.read_bytes()}
    for tried in range(1, FUZZED + 1):
        path = rng.choice(list(contents))
        content = bytearray(contents[path])
        for _ in range(rng.choice([1, 3, 20])):
            at = rng.randrange(len(content))
            content[at : at + rng.choice([1, 4, 8])] = rng.choice([b"\xff" * 4, b"\x00" * 8, rng.randbytes(4)])
        path.write_bytes(content[: rng.choice([None, None, None, len(content) // 2])])
        try:
            if path.name == "r.h5":
                gpu_rsfd.open_results(path)
            else:
                merge(tmp_path / "p.h5")
                (tmp_path / "p.h5").unlink()
        except (InputError, RunError):
            pass
        folder_of(tmp_path / "p.h5").mkdir(exist_ok=True)
        for aside in folder_of(tmp_path / "p.h5").glob("*.damaged"):
            aside.unlink()
        if tried % 10 == 0 or not mark.exists():
            for part in folder_of(tmp_path / "p.h5").iterdir():
                part.unlink()
            (tmp_path / "p.h5").unlink(missing_ok=True)
            parts(tmp_path / "p.h5", 1, 2)
        for path, content in contents.items():
            path.write_bytes(content)


# -------------------------------------------------------------------------------------------------------- terminals


def test_control_characters_are_escaped():
    assert escaped("a\x1b]0;title\x07\x9b2Jb\tc\n\u202e") == "a\\x1b]0;title\\x07\\x9b2Jb\tc\n\\u202e"
    assert escaped("grün – 日本") == "grün – 日本"
    stream = io.StringIO()
    guarded = Guarded(stream)
    print("\x1b[1mbold\x1b[0m \x1b[2J\x1b]0;x\x07", file=guarded)
    assert stream.getvalue() == "\x1b[1mbold\x1b[0m \\x1b[2J\\x1b]0;x\\x07\n"


def test_a_stranger_cannot_write_to_the_terminal(file, tmp_path, monkeypatch, capsys):
    """Names in a file with sequences that would retitle, clear or answer."""
    evil = "\x1b]0;pwned\x07\x1b[2J"
    with h5py.File(file, "r+") as content:
        spec = json.loads(content.attrs["spec"])
        spec["datasets"][0]["name"] = evil
        content.move("mine", evil)
        content.attrs["spec"] = json.dumps(spec)
        content.attrs["wall_time"] = content.attrs["wall_time"].replace('"mine"', json.dumps(evil))
        content.attrs["sha256"] = reading.attributes_digest({x: content.attrs[x] for x in reading.ATTRIBUTES})
    assert list(gpu_rsfd.open_results(file)) == [evil]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert call(monkeypatch, "show", "r.h5") == 0
    out = capsys.readouterr().out
    assert "\\x1b]0;pwned" in out
    assert "\x07" not in out
    assert "\x1b]" not in out
    assert "\x1b[2J" not in out
    (tmp_path / evil).write_text("")
    assert call(monkeypatch, "show", evil) == 2
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_link_to_a_pipe_does_not_hang(file, tmp_path):
    link_to_a_pipe(file, tmp_path)
    process = start("show", file, cwd=tmp_path)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err.startswith("gpu-rsfd: ")
    assert len(err.splitlines()) == 1
