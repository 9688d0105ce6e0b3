"""Damaged files and files from strangers: they work, or are refused in one line; never another number, never a hang."""

import contextlib
import hashlib
import io
import json
import os
import random
import resource
import shutil
import zlib
from unittest import mock

import h5py
import numpy as np
import pytest
from command import call, start
from files import store
from runs import killed, same, sweep

import gpu_rsfd
from gpu_rsfd.cli import main
from gpu_rsfd.cli.terminal import Guarded, escaped
from gpu_rsfd.errors import InputError, RunError

MUTATIONS = 200
FLIPS = 400
VALUES = [
    None,
    True,
    -1,
    0,
    2,
    7,
    2**63,
    10**400,
    1.5,
    800.0,
    float("nan"),
    "",
    "x",
    "\ud800",
    [],
    [1],
    [[1]],
    {},
    {"a": 1},
]
SIGNED = ("format", "complete", "stream_version", "spec", "layout", "wall_time", "package_version", "numpy_version",
          "backend", "device")  # fmt: skip
MARK = b"\x89gpu-rsfd-3\r\n"


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    path = tmp_path_factory.mktemp("valid") / "r.h5"
    results, sets = [], []
    for name, d in (("mine", 2), ("two", 3)):
        labels = [[f"{name}{v}" for v in range(4)]] * d
        codes = np.arange(20 * d).reshape(20, d) % 4
        sets.append(gpu_rsfd.Dataset(codes, (4,) * d, name=name, labels=labels))
        options = {"epsilons": [0.5, 2.0], "protocols": ["rsfd-grr", "spl-oue"], "repetitions": 3, "workers": 1}
        results.append(gpu_rsfd.simulate(sets[-1], **options))
    store(path, sets, results, device="here")
    return path


@pytest.fixture
def file(valid, tmp_path):
    return shutil.copyfile(valid, tmp_path / "r.h5")


def sign(file, **changes):
    """Attributes that somebody has set, with the checksum that belongs to them."""
    for name, value in changes.items():
        text = value if isinstance(value, (str, int)) else json.dumps(value)
        file.attrs[name] = np.bytes_(text.encode(errors="replace")) if isinstance(text, str) else text
    found = {name: file.attrs[name] for name in SIGNED}
    found = {name: value.decode() if isinstance(value, bytes) else int(value) for name, value in found.items()}
    digest = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
    file.attrs["sha256"] = np.bytes_(digest.encode())


def sign_header(file, change, name="mine"):
    """A header that somebody has changed, and signed."""
    document = json.loads(file[name]["header"][()])
    text = json.dumps(change(document)).encode()
    del file[name]["header"]
    file[name]["header"] = np.bytes_(text)
    file[name].attrs["sha256"] = np.bytes_(hashlib.sha256(text).hexdigest().encode())


def use(path):
    """What `show` does; anything but InputError is a bug."""
    results = gpu_rsfd.open_results(path)
    assert all(np.isfinite(result.mse("simplex")).all() for result in results.values())
    said = io.StringIO()
    argv = mock.patch("sys.argv", ["gpu-rsfd", "show", str(path), "--csv"])
    quiet = contextlib.redirect_stdout(io.StringIO())
    with argv, quiet, contextlib.redirect_stderr(said), pytest.raises(SystemExit) as ended:
        main()
    if ended.value.code == 2:
        raise InputError(said.getvalue().strip().removeprefix("gpu-rsfd: "))
    assert not ended.value.code, said.getvalue()


# --------------------------------------------------------------------------------------------------------- accidents


def content_of(path):
    """All that a user gets from a file."""
    results = gpu_rsfd.open_results(path)
    about = (results.spec, results.complete, results.backend, results.device, results.seconds)
    arrays = [
        (*(name, r.n, r.names, r.labels, r.plan, r.plan.mechanisms, r.repetitions),
         *(array.tobytes() for array in (r.counts, r.reporters, r.mse(), r.frequencies)))
        for name, r in results.items()
    ]  # fmt: skip
    return about, arrays


def changed(content, rng):
    damaged = bytearray(content)
    for _ in range(rng.choice([1, 2, 8])):
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    return damaged if rng.random() < 0.9 else damaged[: rng.randrange(len(damaged))]


@pytest.mark.slow
@pytest.mark.skipif(
    h5py.version.hdf5_version_tuple < (1, 14, 4), reason="this HDF5 ends the process on some damaged files"
)
def test_flipped_and_cut_bytes(valid, tmp_path):
    """A file is refused, or says what it said before: never other numbers."""
    rng, refusals = random.Random(4), []
    content, truth = valid.read_bytes(), content_of(valid)
    for i in range(FLIPS):
        path = tmp_path / "r.h5"
        path.write_bytes(changed(content, rng))
        try:
            assert content_of(path) == truth, i
        except InputError as error:
            refusals.append(str(error))
    assert all(str(path) in line and "\n" not in line for line in refusals)
    assert FLIPS // 4 < len(refusals) < FLIPS


@pytest.mark.slow
def test_flipped_and_cut_bytes_of_a_journal(tmp_path):
    """What is read is right; what is lost is computed again."""
    rng, path, journal = random.Random(5), tmp_path / "r.h5", tmp_path / "r.h5.journal"
    killed(path, 6)
    (tmp_path / "r.h5.lock").unlink()
    content, truth = journal.read_bytes(), gpu_rsfd.open_results(path)["mine"].counts
    lost = set()
    for i in range(FLIPS // 4):
        journal.write_bytes(changed(content, rng))
        with contextlib.suppress(InputError):
            counts = gpu_rsfd.open_results(path)["mine"].counts
            assert np.array_equal(counts, truth[:, :, : counts.shape[2]])
        if i % 10 == 0:
            results = sweep(path)
            same(results["mine"], 9)
            lost.add(results.computed)
            path.unlink()
    assert len(lost) > 1


# --------------------------------------------------------------------------------------------------- changed by hand


def edited(value, rng):
    """A JSON document with one place changed, removed or doubled."""
    if isinstance(value, (dict, list)) and value and rng.random() < 0.85:
        copy = dict(value) if isinstance(value, dict) else list(value)
        key = rng.choice(list(copy)) if isinstance(copy, dict) else rng.randrange(len(copy))
        if rng.random() < 0.15:
            del copy[key]
        elif isinstance(copy, list) and rng.random() < 0.15:
            copy.append(copy[key])
        else:
            copy[key] = edited(copy[key], rng)
        return copy
    return rng.choice(VALUES)


def mutate_attribute(file, rng):
    holder = rng.choice([file, file, file["mine"]])
    name = rng.choice(["spec", "layout", "wall_time", "sha256", "format", "complete"] if holder is file else ["sha256"])
    kind = rng.randrange(7)
    if name in ("spec", "layout", "wall_time"):
        sign(file, **{name: json.dumps(edited(json.loads(holder.attrs[name]), rng))})
    elif kind == 0:
        del holder.attrs[name]
    elif kind == 1:
        holder.attrs[name] = h5py.Empty("f4")
    else:
        holder.attrs[name] = rng.choice(["text", b"\xff\xfe", np.arange(3), -1, 99, 1.5, np.bool_(True), "[" * 5000])


def mutate_header(file, rng):
    sign_header(file, lambda document: edited(document, rng), rng.choice(["mine", "two"]))


def mutate_dataset(file, rng):
    group = file[rng.choice(["mine", "two"])]
    name = rng.choice(sorted(group))
    data = group[name][()]
    kind = rng.randrange(9)
    if kind == 0:
        del group[name]
        return
    if kind == 1 and data.dtype.kind != "S":
        flat = data.reshape(-1).copy()
        flat[rng.randrange(flat.size)] = np.array(rng.choice([-1, 10**6, 0])).astype(data.dtype)
        group[name][...] = flat.reshape(data.shape)
        return
    del group[name]
    if kind == 2:
        group.create_group(name)
    elif kind == 3:
        group[name] = h5py.SoftLink("/nowhere")
    elif kind == 4:
        group[name] = data.reshape(-1)
    elif kind == 5:
        group[name] = data[..., :-1]
    elif kind == 6:
        group[name] = h5py.Empty("i8")
    elif kind == 7:
        group[name] = np.zeros(data.shape, rng.choice(["i1", "u8", "f8", "S3", "c16", "?"]))
    else:
        group[name] = rng.choice([np.float64(3), "text", np.zeros((0,) * data.ndim)])


def mutate_file(file, rng):
    name = rng.choice(["mine", "two"])
    if rng.random() < 0.5:
        del file[name]
    else:
        file.move(name, "three")
    if rng.random() < 0.5:
        file[name] = np.arange(3)


@pytest.mark.slow
def test_hundreds_of_damages(valid, tmp_path):
    """Signed or not, of the whole file or of a field of its headers."""
    rng, refusals = random.Random(9), []
    for i in range(MUTATIONS):
        path = tmp_path / f"{i}.h5"
        shutil.copyfile(valid, path)
        with h5py.File(path, "r+") as file:
            rng.choice([mutate_attribute, mutate_header, mutate_header, mutate_dataset, mutate_file])(file, rng)
        try:
            use(path)
        except InputError as error:
            refusals.append(str(error))
        path.unlink()
    assert MUTATIONS // 3 < len(refusals) < MUTATIONS
    assert [line for line in refusals if not line.startswith(f"{tmp_path}/") or "\n" in line] == []


def spec(**changes):
    return lambda file: sign(file, spec={**json.loads(file.attrs["spec"]), **changes})


def header(**changes):
    return lambda file: sign_header(file, lambda document: {**document, **changes})


def put(name, place, value):
    return lambda file: file["mine"][name].__setitem__(place, value)


@pytest.mark.parametrize("damage,field", [
    (lambda file: file.attrs.__setitem__("complete", 0), "sha256 does not fit the attributes"),
    (lambda file: sign(file, stream_version=2), "stream_version is 2; this gpu-rsfd knows 1 to 1"),
    (spec(protocols=["rsfd-grr", "later"]), "the header of mine does not fit the spec"),
    (spec(protocols=["rsfd-grr", "rsfd-grr"]), "spec has an entry twice"),
    (spec(repetitions=[0, -1, 1]), "spec has repetitions [0, -1, 1]"),
    (spec(seed="x"), "spec has something else than whole numbers"),
    (header(epsilons=[0.5, -2.0]), "epsilon=-2.0 must be finite and > 0"),
    (header(frequencies=[0.5] * 8), "frequencies"),
    (header(names=["a"]), "names"),
    (header(users=True), "users=True must be"),
    (lambda file: file["mine"].attrs.__setitem__("sha256", np.bytes_(b"0")), "mine/header has changed since"),
    (put("counts", (0, 0, 0, 0), -1), "mine/counts has -1; numbers from 0 to users=20 are valid"),
    (put("counts", (0, 0, 0, 0), 21), "mine/counts has more reports of a value of attribute 0 than reporters"),
    (put("reporters", (0, 0, 0, 0), 21), "mine/reporters has 20 and 21; numbers from 0 to users=20 are valid"),
    (lambda file: sign(file, layout={**json.loads(file.attrs["layout"]), "coords": {"postprocess": []}}),
     "layout has arrays without dimensions"),
])  # fmt: skip
def test_the_field_is_named(file, damage, field):
    with h5py.File(file, "r+") as content:
        damage(content)
    with pytest.raises(InputError) as refusal:
        gpu_rsfd.open_results(file)
    assert str(refusal.value).startswith(f"{file} is damaged: {field}")
    assert "\n" not in str(refusal.value)


def record(key, content=b""):
    """A record of a journal, signed as it should be."""
    text = json.dumps(key).encode() if isinstance(key, dict) else key
    begin = MARK + len(text).to_bytes(8, "little") + len(content).to_bytes(8, "little") + text + content
    return begin + zlib.crc32(begin).to_bytes(4, "little")


BLOCK = {"kind": "block", "dataset": "mine", "key": "", "first": 0, "stop": 1, "protocols": ["rsfd-grr"],
         "epsilons": [1.0], "digests": [["x"]], "seconds": 1.0, "backend": "", "device": "", "arrays": {}}  # fmt: skip


def test_a_journal_of_marks(tmp_path):
    """Each begins a record that would reach to the end of the file: not all of them are read so far."""
    path, journal, number = tmp_path / "r.h5", tmp_path / "r.h5.journal", 5000
    killed(path, 2)
    lies = [
        MARK + (1).to_bytes(8, "little") + ((left - 1) * 29 - 5).to_bytes(8, "little") for left in range(number, 1, -1)
    ]
    journal.write_bytes(journal.read_bytes() + b"".join(lies) + bytes(29))
    for work in (gpu_rsfd.open_results, sweep):
        with pytest.raises(InputError, match=r"journal is damaged: most of it is no record; remove it"):
            work(path)


@pytest.mark.slow
@pytest.mark.parametrize("key", [
    b"[" * 100_000, b"[]", b"null", {"arrays": 3}, {"arrays": {"x": ["O", [1]]}}, {"arrays": {"x": ["i8", [-1]]}},
    {"arrays": {}}, {"arrays": {}, "kind": []}, {**BLOCK, "first": 5}, {**BLOCK, "stop": 10**400},
    {**BLOCK, "seconds": "x"},
    {**BLOCK, "digests": []}, {**BLOCK, "epsilons": ["x"]}, {**BLOCK, "protocols": 3}, BLOCK,
    {"arrays": {}, "kind": "head"}, {"arrays": {}, "kind": "head", "spec": {}, "layout": {}, "headers": []},
])  # fmt: skip
def test_a_journal_of_a_stranger(tmp_path, key):
    """It is shown, passed over, or refused in one line."""
    path, journal = tmp_path / "r.h5", tmp_path / "r.h5.journal"
    killed(path, 2)
    whole = journal.read_bytes()
    for content in (record(key), whole + record(key), record(key) + whole):
        journal.write_bytes(content)
        for work in (gpu_rsfd.open_results, sweep):
            with contextlib.suppress(InputError, RunError):
                same(work(path)["mine"], 2 if work is gpu_rsfd.open_results else 9)
                path.unlink(missing_ok=True)


# --------------------------------------------------------------------------------------------------- read elsewhere


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
    layout = h5py.VirtualLayout((), "S9")
    moved(path, "header", folder / "secret.h5")
    layout[...] = h5py.VirtualSource(str(folder / "secret.h5"), "header", ())
    with h5py.File(path, "r+") as file:
        file["mine"].create_virtual_dataset("header", layout)


@pytest.mark.parametrize("trick,words", [
    (external_link, "counts is a link"),
    (link_to_a_pipe, "counts is a link"),
    (soft_link, "counts is a link"),
    (group_elsewhere, "mine is a link"),
    (external_storage, "mine/counts is stored in other files"),
    (virtual, "mine/counts is stored in other files"),
    (text_elsewhere, "mine/header is stored in other files"),
])  # fmt: skip
def test_nothing_is_read_from_elsewhere(file, tmp_path, trick, words):
    trick(file, tmp_path)
    with pytest.raises(InputError, match=words) as refused:
        gpu_rsfd.open_results(file)
    assert str(refused.value).startswith(f"{file} is damaged: ")
    assert "\n" not in str(refused.value)


def billion(file):
    """A few kilobytes that declare 1e9 repetitions, signed as it should be."""
    sign(file, spec={**json.loads(file.attrs["spec"]), "repetitions": [0, 10**9, 1]})
    for name in ("counts", "reporters", "mse"):
        node = file["mine"][name]
        shape, dtype = (*node.shape[:2], 10**9, *node.shape[3:]), node.dtype
        del file["mine"][name]
        file["mine"].create_dataset(name, shape, dtype, chunks=(1, 1, 1024, *shape[3:]), compression="gzip")


def with_chunk(file, content, mask, place=(0, 0, 0, 0)):
    """The counts of a file, with these bytes as a chunk."""
    node = file["mine"]["counts"]
    counts, shape = node[()], node.shape
    del file["mine"]["counts"]
    options = {"compression": "gzip", "compression_opts": 1, "shuffle": True, "fletcher32": True}
    node = file["mine"].create_dataset(
        "counts", shape, np.int64, chunks=(1, 1, 1024, 8), maxshape=(None,) * 4, **options
    )
    node[...] = counts
    node.id.write_direct_chunk(place, content, mask)


def bomb(file, place=(0, 0, 0, 0)):
    """A chunk of some megabytes that HDF5 inflates to gigabytes, in a place for a few bytes."""
    zeros = zlib.compressobj(9)
    content = b"".join(zeros.compress(bytes(1 << 24)) for _ in range(256)) + zeros.flush()
    with_chunk(file, content + b"sums", 4, place)  # without a checksum


def late_bomb(file):
    """The last of several chunks."""
    bomb(file, (1, 1, 0, 0))


def short(file):
    """A chunk that inflates to less than its numbers: HDF5 goes on in memory that nobody has written."""
    with_chunk(file, zlib.compress(bytes(1000)), 4)


def short_and_plain(file):
    """The same of one that is not deflated."""
    with_chunk(file, bytes(1000), 7)


def padded(file):
    """A chunk that is larger than its numbers."""
    with_chunk(file, bytes(1 << 22), 7)


def other_filters(file):
    """Deflated twice: gigabytes from a few bytes, with a chunk of any size in between."""
    node = file["mine"]["counts"]
    content, chunks = node[()], node.chunks
    del file["mine"]["counts"]
    made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    made.set_chunk(chunks)
    for _ in range(3):
        made.set_deflate(9)
    space = h5py.h5s.create_simple(content.shape)
    h5py.h5d.create(file["mine"].id, b"counts", h5py.h5t.NATIVE_INT64, space, made)
    file["mine"]["counts"][...] = content


def many_devices(file):
    del file.attrs["device"]
    file.attrs.create("device", ["x" * 1000] * 1000, dtype=h5py.string_dtype())


def text_of_any_length(file):
    del file.attrs["device"]
    file.attrs.create("device", "x", dtype=h5py.string_dtype())


@pytest.mark.slow
@pytest.mark.parametrize("trick,words", [
    (billion, "declares [0-9,]+ bytes, but the file has only"),
    *((trick, r"mine/counts has a chunk of more or less than the [0-9,]+ bytes that it declares")
      for trick in (bomb, late_bomb, padded, short, short_and_plain)),
    (other_filters, "mine/counts is stored in another way than by gpu-rsfd"),
    (many_devices, "device is not a number or a text of fixed length"),
    (text_of_any_length, "device is not a number or a text of fixed length"),
])  # fmt: skip
def test_nothing_is_allocated_that_is_not_there(file, trick, words):
    with h5py.File(file, "r+") as content:
        trick(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=words):
        gpu_rsfd.open_results(file)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


def test_pipes_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.h5")
    with pytest.raises(InputError, match=r"pipe.h5 is not a regular file"):
        gpu_rsfd.open_results(tmp_path / "pipe.h5")
    os.mkfifo(tmp_path / "r.h5.journal")
    for work in (gpu_rsfd.open_results, sweep):
        with pytest.raises(InputError, match=r"r.h5.journal is not a regular file"):
            work(tmp_path / "r.h5")


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
        sign(content, spec=spec, wall_time={name: {"seconds": 1.0} for name in (evil, "two")})
    assert list(gpu_rsfd.open_results(file)) == [evil, "two"]
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
