"""One declaration per option: command line, spec files, keywords, JSON, commands and docs follow from it."""

import inspect
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command import call, refusal
from doc_tables import tables

import gpu_rsfd
from gpu_rsfd.cli.commands import load
from gpu_rsfd.cli.inputs import spec_of
from gpu_rsfd.command import command_of
from gpu_rsfd.errors import InputError
from gpu_rsfd.measure import MEASUREMENTS, Frequencies, Inference, Measurement
from gpu_rsfd.measure.base import options_of
from gpu_rsfd.options import Option, unknown_name
from gpu_rsfd.protocols import DEFAULT_SETTINGS
from gpu_rsfd.running.collect import Run
from gpu_rsfd.spec import FIELDS, Spec

ROOT = Path(__file__).parents[2]
DATA = gpu_rsfd.SyntheticDataset(60, (3, 2), name="uniform-n60-d2")
# A value of each field that is not its default, as people write it.
OTHER = {
    **{"protocols": "rsrfd-grr,spl-l-sue", "epsilons": "1,ln3", "repetitions": "4", "seed": "1e3"},
    **{"assignment": "balanced", "sampler": "marginals", "first_report": "0.25", "guarantee": "user"},
    **{"prior": "dirichlet:2", "prior_seed": "7"},
}


def words_of(fields):
    return [word for f in fields for word in (f"--{f.key}", OTHER[f.name])]


def test_every_field_has_a_value_here():
    assert set(OTHER) == {f.name for f in FIELDS}


@pytest.mark.parametrize("function,command", [
    (gpu_rsfd.simulate, "simulate"), (gpu_rsfd.sweep, "sweep"), (gpu_rsfd.attack, "attack"),
    (gpu_rsfd.rounds, "rounds"), (gpu_rsfd.plan, "plan"),
])  # fmt: skip
def test_signatures_and_docstrings_name_every_field(function, command):
    parameters = inspect.signature(function).parameters
    kind = next((kind for kind in MEASUREMENTS.values() if kind.command == command), Measurement)
    for f in FIELDS:
        if command in f.unused or f.name in kind.unused:
            assert f.name not in parameters
            with pytest.raises(InputError, match=f"{f.name}=.* can't be used in {command}"):
                function(DATA, **{f.name: f.value()}, **({"output": "x.h5"} if command == "sweep" else {}))
        else:
            assert parameters[f.name].default == kind.defaults.get(f.name, f.value(command))
            default = f"  Default: {kind.defaults[f.name]}." if f.name in kind.defaults else ""
            assert f"    {f.name} : {f.type_text}\n        {f.help}{default}" in function.__doc__
    small = {"epsilons": 1.0, "protocols": "smp-l-grr", "repetitions": 1}
    for name in small.keys() & kind.defaults.keys():  # what the signature says is what is used
        given = {key: value for key, value in small.items() if key != name}
        assert function(DATA, **given).spec == function(DATA, **given, **{name: parameters[name].default}).spec
    with pytest.raises(InputError, match="unknown option 'epsilon'; did you mean epsilons"):
        function(DATA, epsilon=1.0, **({"output": "x.h5"} if command == "sweep" else {}))


def test_the_same_from_text_keywords_and_a_spec_file(tmp_path, monkeypatch):
    texts = {f.key: OTHER[f.name] for f in FIELDS}
    spec = spec_of(texts, "sweep")
    assert spec == Spec.of(**{f.name: f.read(OTHER[f.name]) for f in FIELDS})
    for f in FIELDS:
        assert getattr(spec, f.name) != getattr(Spec(), f.name), f.name
    toml = "".join(f"{f.key} = {json.dumps(OTHER[f.name])}\n" for f in FIELDS)
    (tmp_path / "s.toml").write_text(f'users = 60\ndomain = "3,2"\n{toml}')
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, "sweep", "--spec", "s.toml", "--quiet", "--no-plot", "--output", "a.h5") == 0
    made = ["--users", "60", "--domain", "3,2", *words_of(FIELDS)]
    assert call(monkeypatch, "sweep", *made, "--quiet", "--no-plot", "--output", "b.h5") == 0
    a, b = (gpu_rsfd.open_results(f"{name}.h5") for name in "ab")
    assert a.spec == b.spec
    assert {k: v for k, v in a.spec.items() if k in OTHER} == spec.described()


def test_json_is_read_back():
    for given in ({}, {f.name: f.read(OTHER[f.name]) for f in FIELDS}):
        spec = Spec.of(**given)
        plain = json.loads(json.dumps(spec.described()))
        again = Spec.of(**{**plain, "repetitions": range(*plain["repetitions"])})
        assert again == spec
    assert Spec.of().described().keys() == {"protocols", "epsilons", "repetitions", "seed", "assignment", "sampler"}


def test_a_checked_spec_stays_as_it_is():
    spec = Spec.of(**{f.name: f.read(OTHER[f.name]) for f in FIELDS})
    assert Spec.of(spec) == spec
    assert Spec.of(spec, seed=3).prior == spec.prior
    with pytest.raises(InputError, match=r"first_report=0.25 needs a longitudinal protocol; available: spl-l-grr"):
        Spec.of(spec, protocols="rsrfd-grr")


def test_defaults_agree_with_those_of_protocols():
    assert (Spec().first_report, Spec().guarantee) == (DEFAULT_SETTINGS.first_report, DEFAULT_SETTINGS.guarantee)
    differ = {(f.name, command) for f in FIELDS for command in f.defaults}
    assert differ == {("assignment", "paper"), ("guarantee", "plan")}


def test_what_a_file_can_hold_once_only():
    """A new field keeps files apart unless it says otherwise: nothing is mixed silently."""
    apart = {"protocols", "epsilons", "repetitions", "first_report", "prior", "prior_seed"}
    assert {f.name for f in FIELDS if not f.shared} == apart
    assert Option("new", "N", "").shared


@pytest.mark.parametrize("command,kind", [
    *((kind.command, kind) for kind in MEASUREMENTS.values()), ("run", Measurement), ("paper", Frequencies),
    ("plan", Measurement),
])  # fmt: skip
def test_every_field_is_an_option_of_every_command(command, kind):
    """With its help and default; a measurement brings its own."""
    known = {p.name: p for p in load(command).params}
    for f in (*FIELDS, *options_of(kind)):
        wanted = command not in f.unused and f.name not in kind.unused
        assert (f.key.replace("-", "_") in known) == wanted, f.name
        if wanted and f.default_text:
            text = known[f.key.replace("-", "_")].help
            assert text.endswith(f"(default: {kind.defaults.get(f.name, f.defaults.get(command, f.default_text))})")


def test_declarations_import_no_numpy():
    program = (
        "import sys, types\n"
        f"package = types.ModuleType('gpu_rsfd'); package.__path__ = [{str(Path(gpu_rsfd.__file__).parent)!r}]\n"
        "sys.modules['gpu_rsfd'] = package\n"
        "import gpu_rsfd.spec\n"
        "print([m for m in ('numpy', 'h5py', 'typer') if m in sys.modules], len(gpu_rsfd.spec.FIELDS) > 5)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[] True\n", done.stderr


def test_the_docs_list_every_option():
    page = tables.options()
    assert all(f"`--{f.key} " in page for f in FIELDS)


@pytest.mark.parametrize("command", ["sweep", "paper", "attack", "rounds", "run", "plan"])
def test_the_docs_say_which_commands_have_an_option(command):
    page = tables.options()
    known = {f"--{p.name.replace('_', '-')}" for p in load(command).params}
    sections = re.split(r"^## ", page, flags=re.M)[1:]
    titles = [section.partition("\n")[0] for section in sections]
    assert titles[3:-1] == ["What `sweep` records", "What `attack` records", "What `rounds` records"]
    for section in (*sections[:3], *(sections[-1:] if command != "plan" else ())):
        for flag, refused in re.findall(r"^\| `(--[\w-]+)[^|]*\|.*\|([^|]*)\|$", section, re.M):
            assert (flag in known) == (f"`{command}`" not in refused or "| not in |" not in section), flag


def test_names_that_nobody_knows():
    assert unknown_name("sed", ["seed", "prior"]) == "unknown option 'sed'; did you mean seed? available: seed, prior"
    assert unknown_name("x", ["seed"], "key") == "unknown key 'x'; available: seed"
    with pytest.raises(InputError, match=r"unknown option 'chang'; did you mean change\? available: rounds, change"):
        gpu_rsfd.rounds(DATA, chang=0.1)  # the measurement's own options are named, too


@pytest.mark.parametrize("arguments,near", [
    (["sweep", "--epsilonn", "1"], "--epsilon"),
    (["attack", "--knowlege", "true"], "--knowledge"),
    (["show", "--postproces", "none"], "--postprocess"),
    (["sweeep"], "sweep"),
])  # fmt: skip
def test_unknown_options_and_commands_name_the_nearest(tmp_path, monkeypatch, capsys, arguments, near):
    (line,) = refusal(monkeypatch, capsys, tmp_path, arguments)
    assert f"did you mean {near}?" in line


# The command that made a file


def run_again(monkeypatch, spec, output):
    words = shlex.split(command_of(spec, output=output))
    assert call(monkeypatch, *words[1:], "--quiet", "--no-plot", "--workers", "1") == 0
    return gpu_rsfd.open_results(output).spec


SMALL = ["--repetitions", "2", "--epsilon", "1,ln2", "--protocol", "smp-grr,spl-grr"]


@pytest.mark.parametrize("command,data", [
    ("sweep", ["--users", "50,60", "--domain", "3x2,4", "--distribution", "zipf:1.2", "--data-seed", "7"]),
    ("sweep", ["--users", "50,60", "--attributes", "2,1", "--values", "3", "--sampler", "marginals", "--keep", "mse"]),
    ("sweep", ["--dataset", "odd name,x.csv", "--bins", '"age, years"=2', "--missing", "drop", "--delimiter", ";"]),
    ("sweep", ["--dataset", "a.csv,b.csv,nursery", "--exclude", "x"]),
    ("attack", ["--users", "50", "--domain", "3x2", "--knowledge", "estimated", "--seed", "3"]),
    ("attack", ["--users", "50", "--domain", "3x2", "--guarantee", "attribute", "--assignment", "balanced"]),
])  # fmt: skip
@pytest.mark.slow
def test_the_command_makes_the_same_file(tmp_path, monkeypatch, command, data):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{'fm'[i % 2]};{20 + i};{i % 3}\n" for i in range(30))
    Path("odd name,x.csv").write_text('sex;"age, years";x\n' + rows)
    for name in "ab":
        Path(f"{name}.csv").write_text("sex,x\nf,1\nm,2\nf,2\n")
    more = ["--quiet", "--no-plot", "--workers", "1"]
    repetitions = ["--repetitions", "1"] if "nursery" in data[1] else []
    assert call(monkeypatch, command, *data, *SMALL, *repetitions, *more, "--output", "a.h5") == 0
    spec = gpu_rsfd.open_results("a.h5").spec
    assert run_again(monkeypatch, spec, "it's b.h5") == spec


def test_no_command_says_it():
    of = lambda datasets, **fields: command_of(Run.of(Frequencies(), Spec.of(**fields), datasets).want.spec)  # noqa: E731
    synthetic = gpu_rsfd.SyntheticDataset
    assert of([DATA]) is not None
    assert of([gpu_rsfd.Dataset([[0], [1]], (2,))]) is None
    assert of([DATA], repetitions=range(3, 5)) is None
    assert of([synthetic(60, (3, 2), name="mine")]) is None
    assert of([gpu_rsfd.load_dataset("syn1", seed=1), gpu_rsfd.load_dataset("syn2", seed=2)]) is None
    assert of([DATA, synthetic(60, (3,), name="uniform-n60-d1")]) is None
    assert of([DATA, gpu_rsfd.load_dataset("nursery")]) is None
    assert of([DATA], protocols="rsrfd-grr", prior=[[0.5, 0.25, 0.25], [0.5, 0.5]]) is None
    spec = Run.of(Inference(), Spec.of(repetitions=10), [DATA]).want.spec
    assert "--repetitions 10" in command_of(spec)
    assert command_of(spec).startswith("gpu-rsfd attack --users 60 --domain 3,2 ")
    assert command_of({**spec, "protocols": ["somebody's"]}) is None


def test_less_and_more_is_refused_with_the_command_that_works(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    fixed = ["--users", "50", "--domain", "3x2", "--repetitions", "2", "--quiet", "--no-plot", "--workers", "1"]
    fixed += ["--output", "my attack.h5"]
    assert call(monkeypatch, "attack", *fixed, "--epsilon", "1,2", "--protocol", "smp-grr") == 0
    lines = refusal(monkeypatch, capsys, tmp_path, ["attack", *fixed, "--epsilon", "1", "--protocol", "spl-grr,smp-grr"]
                    , last=False)  # fmt: skip
    (command,) = (line.strip() for line in lines if line.startswith("  gpu-rsfd attack "))
    assert call(monkeypatch, *shlex.split(command)[1:], "--quiet", "--no-plot", "--workers", "1") == 0
    (result,) = gpu_rsfd.open_results("my attack.h5").values()
    assert (result.protocols, result.epsilons) == (("smp-grr", "spl-grr"), (1.0, 2.0))


# Protocols of one's own


@pytest.fixture
def own(monkeypatch, tmp_path):
    """A file with the protocol `mine`, another one with the same name, and one with a name of gpu-rsfd."""
    mine = (
        "import math, gpu_rsfd\n"
        "one = gpu_rsfd.protocol('mine', solution='rsfd-z', label='Mine',\n"
        "                        bits=lambda e, k: (0.5, 1 / (math.exp(e) + 1)))\n"
    )
    (tmp_path / "mine.py").write_text(mine)
    (tmp_path / "again.py").write_text(mine)
    (tmp_path / "clash.py").write_text(
        "import dataclasses\nfrom gpu_rsfd.protocols import REGISTRY\n"
        "one = dataclasses.replace(REGISTRY['smp-oue'], name='smp-grr')\n"
    )
    monkeypatch.chdir(tmp_path)


SIZE = ["--users", "60", "--domain", "3,2", "--epsilon", "1"]


def test_protocols_from_a_file(own, monkeypatch, capsys):
    more = [*SIZE, "--repetitions", "2", "--quiet", "--no-plot", "--workers", "1"]
    assert call(monkeypatch, "sweep", *more, "--protocol-from", "mine.py") == 0
    (alone,) = gpu_rsfd.open_results("results.h5").values()
    assert alone.protocols == ("mine",)
    assert alone.look("mine").label == "Mine"
    truth = gpu_rsfd.simulate(DATA, protocols="rsfd-oue-z", epsilons=1.0, repetitions=2, workers=1)
    assert np.array_equal(alone.counts, truth.counts)
    both = ["--protocol-from", "mine.py", "--protocol", "smp-grr,mine"]
    assert call(monkeypatch, "attack", *more, *both) == 0
    (attack,) = gpu_rsfd.open_results("attack.h5").values()
    assert attack.protocols == ("smp-grr", "mine")
    capsys.readouterr()
    assert call(monkeypatch, "plan", *SIZE, *both, "--json") == 0
    (plan,) = json.loads(capsys.readouterr().out)
    assert [row["protocol"] for row in plan["rows"]] == ["smp-grr", "mine"]
    assert plan["rows"][1]["attacked_users"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("command", [["sweep", *SIZE, "--repetitions", "1", "--no-plot"], ["plan", *SIZE]])
@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_spec_file_runs_no_code_of_its_own_accord(own, monkeypatch, capsys, tmp_path, command, more):
    """Somebody else's spec file may name any Python file."""
    more = more if command[0] == "sweep" else []
    with (tmp_path / "mine.py").open("a") as file:
        file.write("open('ran', 'w').close()\n")
    (tmp_path / "their.toml").write_text('protocol_from = ["mine.py"]\n')
    line = refusal(monkeypatch, capsys, tmp_path, [*command, *more, "--spec", "their.toml"])[-1]
    assert line.endswith("spec=their.toml names Python files (protocol-from=mine.py); --allow-code executes them")
    assert not (tmp_path / "ran").exists()
    assert call(monkeypatch, *command, *more, "--spec", "their.toml", "--allow-code") == 0
    assert (tmp_path / "ran").exists()
    assert call(monkeypatch, *command, *more, "--spec", "their.toml", "--protocol-from", "again.py") == 0
    assert call(monkeypatch, "sweep", "--help") == 0
    assert "--allow-code" in capsys.readouterr().out


def test_protocols_are_listed_and_checked(own, monkeypatch, capsys):
    assert call(monkeypatch, "protocols") == 0
    lines = [line.split()[0].lstrip("*") for line in capsys.readouterr().out.splitlines()[3:-2]]
    assert lines == list(gpu_rsfd.PROTOCOLS)
    monkeypatch.setattr("gpu_rsfd.contract.check", lambda protocol, echo: echo(f"{protocol.name} is checked"))
    assert call(monkeypatch, "protocols", "--protocol-from", "mine.py", "--check") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("mine        Mine")
    assert second == "  mine is checked"


def test_names_that_clash(own, monkeypatch, capsys, tmp_path):
    (line,) = refusal(monkeypatch, capsys, tmp_path, ["sweep", *SIZE, "--protocol-from", "clash.py"])
    assert "protocol-from=clash.py: gpu-rsfd has a protocol 'smp-grr'; give it another name" in line
    (line,) = refusal(monkeypatch, capsys, tmp_path, ["sweep", *SIZE, "--protocol-from", "mine.py,again.py"])
    assert "another file has a protocol 'mine'" in line


def test_the_plan_in_python_is_the_one_that_is_printed(monkeypatch, capsys):
    options = ["--dataset", "nursery", "--users", "1e4,2e4", "--epsilon", "1", "--protocol", "smp-grr,spl-grr"]
    assert call(monkeypatch, "plan", *options, "--target-rmse", "0.01", "--json") == 0
    printed = [row for plan in json.loads(capsys.readouterr().out) for row in plan["rows"]]
    protocols = ["smp-grr", "spl-grr"]
    rows = gpu_rsfd.plan("nursery", users=[10_000, 20_000], epsilons=1.0, protocols=protocols, target_rmse=0.01)
    assert [row.users for row in rows] == [10_000, 10_000, 20_000, 20_000]
    assert [row["mse"] for row in printed] == [row.mse for row in rows]
    assert [row["value"] for row in printed] == [row.value for row in rows]
    assert [row.users for row in gpu_rsfd.plan("nursery", epsilons=1.0, attack=False)] == [12_960] * 6
    with pytest.raises(InputError, match="users is an empty list"):
        gpu_rsfd.plan("nursery", users=[])
