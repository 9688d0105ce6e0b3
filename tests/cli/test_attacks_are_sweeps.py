"""`gpu-rsfd attack` resumes, extends, takes parts, merges and is shown as a sweep is."""

import json

import numpy as np
import pytest
from command import call, refusal

import gpu_rsfd

SIZE = ["--users", "80,90", "--domain", "3,4", "--workers", "1", "--no-plot"]
MORE = ["--protocol", "smp-grr,rsfd-grr,spl-grr", "--epsilon", "2,1", "--repetitions", "6"]


@pytest.fixture
def whole(tmp_path, monkeypatch):
    """A finished attack, `attack.h5`."""
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, "attack", *SIZE, *MORE, "--quiet") == 0
    return gpu_rsfd.open_results("attack.h5")


def same(file, other):
    results = gpu_rsfd.open_results(file)
    assert results.complete
    assert list(results) == list(other)
    for name, result in results.items():
        assert (result.protocols, result.epsilons) == (other[name].protocols, other[name].epsilons)
        for array in result.arrays:
            assert np.array_equal(result[array], other[name][array], equal_nan=True)


def test_extended_in_every_direction(whole, monkeypatch, capsys):
    steps = [
        ["--users", "80", "--protocol", "smp-grr", "--epsilon", "2", "--repetitions", "2"],
        ["--users", "80", "--protocol", "smp-grr,rsfd-grr,spl-grr", "--epsilon", "2,1", "--repetitions", "2"],
        ["--users", "80,90", "--protocol", "smp-grr,rsfd-grr,spl-grr", "--epsilon", "2,1", "--repetitions", "6"],
    ]
    for step in steps:
        assert call(monkeypatch, "attack", *SIZE[2:], *step, "--output", "grown.h5", "--quiet") == 0
    same("grown.h5", whole)
    capsys.readouterr()
    assert call(monkeypatch, "attack", *SIZE[2:], *steps[-1], "--output", "grown.h5") == 0
    said = capsys.readouterr()
    assert "grown.h5 is complete: nothing to do" in said.err
    assert said.out == ""


def test_parts_and_merge(whole, monkeypatch, capsys):
    for number in (2, 1):
        assert call(monkeypatch, "attack", *SIZE, *MORE, "--part", f"{number}/2", "--output", "p.h5") == 0
    assert "part 1 of 2 is done: " in capsys.readouterr().err
    assert call(monkeypatch, "merge", "p.h5") == 0
    same("p.h5", whole)


def test_a_spec_file_and_a_dry_run(whole, tmp_path, monkeypatch, capsys):
    (tmp_path / "a.toml").write_text(
        'users = [80, 90]\ndomain = "3,4"\nprotocol = ["smp-grr", "rsfd-grr", "spl-grr"]\nepsilon = [2, 1]\n'
        'repetitions = 6\nknowledge = "true"\n'
    )
    common = ["attack", "--spec", "a.toml", "--workers", "1", "--no-plot", "--output", "spec.h5"]
    assert call(monkeypatch, *common, "--dry-run") == 0
    assert "3 protocols x 2 epsilons x 6 repetitions: 72 cells" in capsys.readouterr().out
    assert not (tmp_path / "spec.h5").exists()
    assert call(monkeypatch, *common, "--quiet") == 0
    same("spec.h5", whole)
    (tmp_path / "bad.toml").write_text('sampler = "counts"\n')
    (line,) = refusal(monkeypatch, capsys, tmp_path, ["attack", "--spec", "bad.toml"])
    assert "unknown key 'sampler'" in line


@pytest.mark.slow
def test_show_and_plot_take_a_part_of_it(whole, tmp_path, monkeypatch, capsys):
    name = list(whole)[1]
    some = ["--dataset", name, "--protocol", "spl-grr,smp-grr", "--epsilon", "1"]
    capsys.readouterr()
    assert call(monkeypatch, "show", "attack.h5", *some, "--json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["dataset"], row["protocol"], row["epsilon"]) for row in rows] == [
        (name, "smp-grr", 1.0),
        (name, "spl-grr", 1.0),
    ]
    assert rows[0]["value"] == pytest.approx(whole[name].value_success[0, 1].mean())
    assert call(monkeypatch, "plot", "attack.h5", *some, "--output", "a.svg") == 0
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")
    assert call(monkeypatch, "plot", "attack.h5", "--each") == 0
    assert {p.name for p in tmp_path.glob("attack-*.png")} == {f"attack-{name}.png" for name in whole}
    (line,) = refusal(monkeypatch, capsys, tmp_path, ["show", "attack.h5", "--protocol", "smp-oue"])
    assert "no protocol 'smp-oue' in the results; protocols: smp-grr, rsfd-grr, spl-grr" in line


@pytest.mark.slow
@pytest.mark.parametrize("command", ["attack", "sweep"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), gpu_rsfd.InputError("in the way")])
def test_a_figure_that_cannot_be_written(tmp_path, monkeypatch, capsys, command, error):
    """The table is printed, the results are kept, and the exit code says that something is missing."""

    def fail(*_):
        raise error

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gpu_rsfd.show.plots.save_figure", fail)
    code = call(monkeypatch, command, *SIZE[:-1], "--protocol", "smp-grr", "--repetitions", "1", "--output", "x.h5")
    out, err = capsys.readouterr()
    assert code == 1
    assert "Smp[GRR]" in out
    why = "No space left on device" if isinstance(error, OSError) else "in the way"
    assert err.endswith(f"gpu-rsfd: x.h5 is complete, but its figure can't be written: {why}\n")
    assert gpu_rsfd.open_results("x.h5").complete


@pytest.mark.slow
def test_on_a_cluster(whole, monkeypatch):
    pytest.importorskip("distributed")
    assert call(monkeypatch, "attack", *SIZE[:4], *MORE, "--no-plot", "--quiet", "--cluster", "local:2",
                "--output", "c.h5") == 0  # fmt: skip
    same("c.h5", whole)
