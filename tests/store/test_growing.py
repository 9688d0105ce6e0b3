"""A results file grows in every direction, and says in plain words why it does not."""

from dataclasses import replace

import h5py
import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols import REGISTRY

DATA = gpu_rsfd.SyntheticDataset(400, (3, 5), "zipf:1", name="mine")
OTHER = gpu_rsfd.SyntheticDataset(300, (4,), name="other")
ALL = {
    "protocols": ["spl-adp", "rsfd-grr", "smp-adp", "rsfd-oue-z", "smp-grr"],
    "epsilons": [0.5, 1.0, 2.0, 3.0],
    "repetitions": 30,
    "seed": 3,
}
RUN = {"backend": "numpy", "workers": 1}


def grow(path, data=DATA, **options):
    return gpu_rsfd.sweep(data, **{**ALL, **options}, output=path, **RUN)


def content(path):
    """All that a file says, but how long it took."""
    found = {}
    with h5py.File(path) as file:
        found.update({name: file.attrs[name] for name in ("spec", "layout", "complete", "format", "stream_version")})

        def visit(name, node):
            if isinstance(node, h5py.Dataset):
                found[name] = (
                    node.shape,
                    node.dtype,
                    node[()].tolist() if node.dtype.kind == "O" else node[()].tobytes(),
                )
            found[name, "attrs"] = {k: node.attrs[k] for k in ("users", "sha256") if k in node.attrs}

        file.visititems(visit)
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One command with everything."""
    path = tmp_path_factory.mktemp("whole") / "r.h5"
    grow(path, [DATA, OTHER])
    return content(path)


@pytest.mark.slow
def test_protocols_then_epsilons_then_data_then_repetitions(tmp_path, whole):
    path = tmp_path / "r.h5"
    steps = [
        ({"protocols": ["rsfd-grr", "smp-adp", "smp-grr"], "epsilons": [1.0, 3.0], "repetitions": 10}, DATA, 10),
        ({"repetitions": 10}, DATA, 10),
        ({"repetitions": 10}, [DATA, OTHER], 10),
        ({}, [DATA, OTHER], 40),
    ]
    for options, data, computed in steps:
        assert grow(path, data, **options).computed == computed
    assert content(path) == whole
    assert grow(path, [DATA, OTHER]).computed == 0
    assert [p.name for p in tmp_path.iterdir()] == ["r.h5"]


def test_the_order_is_that_of_the_last_command(tmp_path):
    grow(tmp_path / "a.h5", [DATA, OTHER], repetitions=4)
    turned = {"protocols": ALL["protocols"][::-1], "epsilons": ALL["epsilons"][::-1], "repetitions": 4}
    assert grow(tmp_path / "a.h5", [OTHER, DATA], **turned).computed == 0
    grow(tmp_path / "b.h5", [OTHER, DATA], **turned)
    assert content(tmp_path / "a.h5") == content(tmp_path / "b.h5")


def refused(path, data=DATA, **options):
    before = path.read_bytes()
    with pytest.raises(InputError) as error:
        grow(path, data, **options)
    assert path.read_bytes() == before
    return str(error.value)


def test_less_of_one_and_more_of_another(tmp_path):
    """Refused with the command that works."""
    path = tmp_path / "r.h5"
    data = gpu_rsfd.load_dataset("nursery")
    options = {"sampler": "marginals", "repetitions": 2}
    grow(path, data, **options)
    line = refused(path, data, **{**options, "protocols": ["rsfd-sue-z", "rsfd-grr"]})
    assert "holds more than this command asks for" in line
    assert "protocols: the file also has spl-adp, smp-adp, rsfd-oue-z, smp-grr" in line
    command = next(x for x in line.splitlines() if "gpu-rsfd sweep" in x)
    assert "--dataset nursery" in command
    assert "--protocol spl-adp,rsfd-grr,smp-adp,rsfd-oue-z,smp-grr,rsfd-sue-z" in command
    assert f"--output {path}" in command
    assert "repetitions: the file has 2, 1 asked for" in refused(path, data, **{**options, "repetitions": 1})


@pytest.mark.parametrize("options,words", [
    ({"seed": 7}, "seed: 3 in the file, 7 asked for"),
    ({"assignment": "balanced"}, "assignment: uniform in the file, balanced asked for"),
    ({"sampler": "counts"}, "sampler: users in the file, counts asked for"),
    ({"guarantee": "user"}, "guarantee: paper in the file, user asked for"),
    ({"repetitions": range(1, 31)}, "repetitions: 0 … 1 in the file, 1 … 30 asked for"),
])  # fmt: skip
def test_what_differs_is_said(tmp_path, options, words):
    grow(tmp_path / "r.h5", repetitions=2)
    line = refused(tmp_path / "r.h5", **{"repetitions": 2, **options})
    assert line.splitlines()[1:] == [f"  {words}"]
    assert "{" not in line
    assert "sha256" not in line


def test_data_that_have_changed(tmp_path):
    codes = np.arange(600).reshape(300, 2) % 3
    grow(tmp_path / "r.h5", gpu_rsfd.Dataset(codes, (3, 3), name="people"), repetitions=2)
    other = gpu_rsfd.Dataset(codes[::-1], (3, 3), name="people")
    assert "people has changed since" in refused(tmp_path / "r.h5", other, repetitions=2)
    fewer = gpu_rsfd.Dataset(codes[:200], (3, 3), name="people")
    assert "people: users 300 in the file, 200 asked for" in refused(tmp_path / "r.h5", fewer, repetitions=2)


def test_data_that_are_read_otherwise(tmp_path):
    """The same file with other bins, of the same number: the file has not changed."""
    table = tmp_path / "people.csv"
    table.write_text("age\n" + "\n".join(str(i * i) for i in range(40)))
    path, options = tmp_path / "r.h5", {"repetitions": 2, "protocols": ["smp-adp"]}
    grow(path, gpu_rsfd.load_table(table, bins={"age": 4}), **options)
    line = refused(path, gpu_rsfd.load_table(table, bins={"age": "4q"}), **options)
    assert "people.csv: bins age=4 in the file, age=4q asked for" in line
    grow(path, gpu_rsfd.load_table(table, bins={"age": "4"}), **options)
    table.write_text("age\n" + "\n".join(str(i * i) for i in reversed(range(40))))
    assert "people.csv has changed since" in refused(path, gpu_rsfd.load_table(table, bins={"age": 4}), **options)


def test_a_prior_of_numbers_is_not_printed(tmp_path):
    path, options = tmp_path / "r.h5", {"protocols": ["rsrfd-grr"], "repetitions": 2}
    grow(path, prior=[[0.2, 0.3, 0.5], [0.2] * 5], **options)
    line = refused(path, prior=[[0.2, 0.5, 0.3], [0.2] * 5], **options)
    assert line.splitlines()[1:] == ["  prior: the file has another one"]
    line = refused(path, prior="zipf:1", **options)
    assert line.splitlines()[1:] == ["  prior: a table in the file, zipf:1.0 asked for"]


def test_options_of_some_protocols_are_not_in_the_way(tmp_path):
    """`first_report` and `prior` matter from the first protocol on that uses them."""
    path = tmp_path / "r.h5"
    grow(path, protocols=["rsfd-grr"], repetitions=2)
    more = {"protocols": ["rsfd-grr", "spl-l-grr", "rsrfd-grr"], "first_report": 0.3, "prior": "zipf:1"}
    grow(path, repetitions=2, **more)
    line = refused(path, repetitions=2, **{**more, "first_report": 0.4})
    assert "first report: 0.3 in the file, 0.4 asked for" in line


@pytest.mark.parametrize("option,values,protocols,said", [
    ("first_report", (1.0, 0.9), ("spl-l-grr", "smp-l-grr"), "first report: 1.0 in the file, 0.9 asked for"),
    ("prior", ("uniform", "zipf:1"), ("rsrfd-grr", "rsrfd-oue-r"), "prior: uniform in the file, zipf:1.0 asked for"),
])  # fmt: skip
def test_no_command_is_named_that_would_be_refused(tmp_path, option, values, protocols, said):
    """Of other protocols than the file has: one run of all can't have both values; one that needs none can be added."""
    path, options = tmp_path / "r.h5", {"epsilons": [1.0], "repetitions": 2}
    grow(path, "nursery", protocols=protocols[:1], **options, sampler="counts", **{option: values[0]})
    more = {**options, "sampler": "counts", option: values[1]}
    line = refused(path, "nursery", protocols=protocols[1:], **more)
    assert line.splitlines()[1:] == [f"  protocols: the file also has {protocols[0]}", f"  {said}"]
    assert "this extends it" not in line
    assert "give another --output" in line
    grow(tmp_path / "s.h5", "nursery", protocols=["rsfd-grr"], **options, sampler="counts")
    line = refused(tmp_path / "s.h5", "nursery", protocols=protocols[1:], **more)
    assert f"--protocol rsfd-grr,{protocols[1]} " in line
    assert grow(tmp_path / "s.h5", "nursery", protocols=["rsfd-grr", protocols[1]], **more).computed == 2


def test_a_redefined_protocol_is_refused(tmp_path):
    path = tmp_path / "r.h5"
    mine = replace(REGISTRY["rsfd-oue-z"], name="mine", label="Mine")
    grow(path, protocols=[mine, "rsfd-grr"], repetitions=2)
    again = replace(REGISTRY["rsfd-oue-z"], name="mine", label="Better")  # the same integers: another look only
    assert grow(path, protocols=[again, "rsfd-grr"], repetitions=2).computed == 0
    other = replace(REGISTRY["rsfd-sue-z"], name="mine", label="Mine")
    line = refused(path, protocols=[other, "rsfd-grr"], repetitions=2)
    assert "mine is another protocol in the file: at epsilon=0.5, data set mine, attribute A1" in line


def test_an_unknown_protocol_is_shown(tmp_path):
    """The file says what its protocols are; the registry is not asked."""
    mine = replace(REGISTRY["rsfd-oue-z"], name="mine", label="Mine", colour="#123456")
    made = grow(tmp_path / "r.h5", protocols=[mine, "rsfd-grr"], repetitions=2)["mine"]
    read = gpu_rsfd.open_results(tmp_path / "r.h5")["mine"]
    known = gpu_rsfd.simulate(DATA, **{**ALL, "protocols": ["rsfd-oue-z", "rsfd-grr"], "repetitions": 2}, **RUN)
    assert read.protocols == ("mine", "rsfd-grr")
    assert read.look("mine")[:3] == ("mine", "Mine", "#123456")
    assert np.array_equal(read.counts, known.counts)
    assert np.array_equal(read.estimates("simplex"), made.estimates("simplex"))
    assert read.plan.mechanisms == made.plan.mechanisms


def test_older_formats_name_the_version_that_reads_them(tmp_path):
    path = tmp_path / "r.h5"
    grow(path, repetitions=2)
    for number, words in ((1, "has format 1, which gpu-rsfd 0.2.0 reads; this is "),
                          (2, "has format 2, which gpu-rsfd 0.2.0 reads; this is "),
                          (9, "was written by a newer gpu-rsfd; this is ")):  # fmt: skip
        with h5py.File(path, "r+") as file:
            file.attrs["format"] = number
            file.attrs["spec"] = "text of any length, as it was before"
        with pytest.raises(InputError) as refusal:
            gpu_rsfd.open_results(path)
        assert str(refusal.value).startswith(f"{path} {words}")
        assert "r.h5 " + words in refused(path, repetitions=2)
