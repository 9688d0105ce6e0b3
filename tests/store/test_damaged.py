"""Hand-edited and damaged results files: they work, or are refused in one line that names the file and the field."""

import contextlib
import io
import json
import random
import shutil

import h5py
import numpy as np
import pytest
from files import store

import gpu_rsfd
from gpu_rsfd.errors import InputError
from gpu_rsfd.show import plots, tables
from gpu_rsfd.store import reading

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


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    path = tmp_path_factory.mktemp("valid") / "r.h5"
    results, sets = [], []
    for name, d in (("one", 2), ("two", 3)):
        labels = [[f"{name}{v}" for v in range(4)]] * d
        codes = np.arange(20 * d).reshape(20, d) % 4
        sets.append(gpu_rsfd.Dataset(codes, (4,) * d, name=name, labels=labels))
        result = gpu_rsfd.simulate(
            sets[-1], epsilons=[0.5, 2.0], protocols=["rsfd-grr", "spl-oue"], repetitions=3, backend="numpy", workers=1
        )
        results.append(result)
    store(path, sets, results, device="here")
    return path


def use(path, draw=False):
    """What `show` and `plot` do; anything but InputError is a bug."""
    results = gpu_rsfd.open_results(path)
    with contextlib.redirect_stdout(io.StringIO()):
        for form in ("table", "csv", "json"):
            tables.show(results, "clip", form)
    assert all(np.isfinite(result.mse("simplex")).all() for result in results.values())
    if draw:
        plots.figure_of(results, "clip")
        plots.frequencies(results, results["one" if "one" in results else "two"].names[0])


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
    holder = rng.choice([file, file, file, file["one"]])
    name = rng.choice(sorted(holder.attrs))
    if name in ("spec", "wall_time") and rng.random() < 0.8:
        holder.attrs[name] = json.dumps(edited(json.loads(holder.attrs[name]), rng))
        return
    kind = rng.randrange(7)
    if kind == 0:
        del holder.attrs[name]
    elif kind == 1:
        holder.attrs[name] = h5py.Empty("f4")
    else:
        holder.attrs[name] = rng.choice(["text", b"\xff\xfe", np.arange(3), -1, 99, 1.5, np.bool_(True), "[" * 5000])


def mutate_dataset(file, rng):
    group = file[rng.choice(["one", "two"])]
    name = rng.choice(sorted(group))
    data = group[name][()]
    kind = rng.randrange(9)
    if kind == 0:
        del group[name]
        return
    if kind == 1 and data.dtype.kind != "O":
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
    name = rng.choice(["one", "two"])
    if rng.random() < 0.5:
        del file[name]
    else:
        file.move(name, "three")
    if rng.random() < 0.5:
        file[name] = np.arange(3)


@pytest.mark.slow
def test_hundreds_of_damages(valid, tmp_path):
    rng = random.Random(9)
    refusals = []
    for i in range(MUTATIONS):
        path = tmp_path / f"{i}.h5"
        shutil.copyfile(valid, path)
        with h5py.File(path, "r+") as file:
            rng.choice([mutate_attribute, mutate_attribute, mutate_dataset, mutate_dataset, mutate_file])(file, rng)
        try:
            use(path, draw=i % 10 == 0)
        except InputError as error:
            refusals.append(str(error))
        path.unlink()
    assert MUTATIONS // 2 < len(refusals) < MUTATIONS
    assert all(line.startswith(f"{tmp_path}/") and "\n" not in line for line in refusals)


def content_of(path):
    """All that a user gets from a file."""
    results = gpu_rsfd.open_results(path)
    about = (results.spec, results.complete, results.backend, results.device, results.seconds)
    arrays = [
        (
            *(name, result.n, result.names, result.labels, result.plan, result.plan.mechanisms, result.repetitions),
            *(array.tobytes() for array in (result.counts, result.reporters, result.errors, result.frequencies)),
        )
        for name, result in results.items()
    ]
    return about, arrays


@pytest.mark.skipif(
    h5py.version.hdf5_version_tuple < (1, 14, 4), reason="this HDF5 ends the process on some damaged files"
)
def test_flipped_and_cut_bytes(valid, tmp_path):
    """A file is refused, or says what it said before: never other numbers."""
    rng = random.Random(4)
    content, truth = valid.read_bytes(), content_of(valid)
    path, refusals = tmp_path / "r.h5", []
    for i in range(FLIPS):
        damaged = bytearray(content)
        for _ in range(rng.choice([1, 2, 8])):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged if i % 10 else content[: rng.randrange(len(content))])
        try:
            assert content_of(path) == truth, i
        except InputError as error:
            refusals.append(str(error))
    assert all(str(path) in line and "\n" not in line for line in refusals)
    assert FLIPS // 4 < len(refusals) < FLIPS


def set_attribute(name, value):
    """An attribute that somebody has set, and signed."""

    def damage(file):
        file.attrs[name] = value
        file.attrs["sha256"] = reading.attributes_digest({x: file.attrs[x] for x in reading.ATTRIBUTES})

    return damage


def set_spec(**changes):
    return lambda file: set_attribute("spec", json.dumps({**json.loads(file.attrs["spec"]), **changes}))(file)


def put(name, place, value):
    return lambda file: file["one"][name].__setitem__(place, value)


@pytest.mark.parametrize("damage,field", [
    (set_attribute("spec", "[1]"), "spec is [1]; a JSON object is needed"),
    (set_attribute("format", "one"), "format is 'one'; a whole number from 1 to 2 is needed"),
    (set_attribute("stream_version", 2), "stream_version is 2, which is unknown; this gpu-rsfd knows 1 to 1"),
    (set_attribute("complete", 0), "complete is 0, but the repetitions say 1"),
    (set_attribute("wall_time", "{}"), "wall_time has no seconds >= 0 for one"),
    (set_spec(protocols=["rsfd-grr", "later"]), "one/protocol is ('rsfd-grr', 'spl-oue'), but spec says"),
    (lambda file: file.attrs.__setitem__("device", "there"), "sha256 does not fit the attributes"),
    (put("protocol_label", 0, "Other"), "one/sha256 does not fit the text of the group"),
    (put("gain", (0, 0, 0), 0.0), "one/gain is 0.0"),
    (put("noise", (0, 0, 0), 9), "one/unsampled has"),
    (set_spec(epsilons=[0.5, -2.0]), "spec is not valid: epsilon=-2.0 must be finite and > 0"),
    (put("counts", (0, 0, 0, 0), -1), "one/counts has -1; numbers from 0 to users=20 are valid"),
    (put("counts", (0, 0, 0, 0), 21), "one/counts has more reports of a value of attribute 0 than reporters"),
    (put("reporters", (0, 0, 0, 0), 21), "one/reporters has 21; numbers from 0 to users=20 are valid"),
    (put("domain", 0, 5), "one/domain is [5, 4], but spec says [4, 4]"),
    (put("frequency", 0, 0.9), "one/frequency sums to 1.4 over attribute 0; it must be 1"),
    (put("epsilon", 0, 0.7), "one/epsilon is (0.7, 2.0), but spec says (0.5, 2.0)"),
])  # fmt: skip
def test_the_field_is_named(valid, tmp_path, damage, field):
    path = tmp_path / "r.h5"
    shutil.copyfile(valid, path)
    with h5py.File(path, "r+") as file:
        damage(file)
    with pytest.raises(InputError) as refusal:
        gpu_rsfd.open_results(path)
    assert str(refusal.value).startswith(f"{path} is damaged: {field}")
    assert "\n" not in str(refusal.value)


def test_what_needs_no_results_file(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe.h5")
    with pytest.raises(InputError, match="not a regular file"):
        gpu_rsfd.open_results(tmp_path / "pipe.h5")
