"""`gpu-rsfd protocols` against theory; `all` and families of protocols wherever protocols are named."""

import json
import math

import pytest
from command import call, refusal

import gpu_rsfd
from gpu_rsfd.options import expanded
from gpu_rsfd.theory import expected_mse
from gpu_rsfd.theory.needs import bits_per_user


def listed(monkeypatch, capsys, *words):
    assert call(monkeypatch, "protocols", *words) == 0
    return capsys.readouterr().out


def test_numbers_are_those_of_theory(monkeypatch, capsys):
    words = ["--epsilon", "ln3", "--attributes", "4", "--values", "7", "--users", "1e5", "--json"]
    found = json.loads(listed(monkeypatch, capsys, *words))
    assert {k: v for k, v in found.items() if k != "protocols"} == {
        **{"epsilon": math.log(3), "d": 4, "k": 7, "n": 100_000, "guarantee": "paper"}
    }
    assert [row["name"] for row in found["protocols"]] == list(gpu_rsfd.PROTOCOLS)
    for row in found["protocols"]:
        name, domain = row["name"], (7,) * 4
        assert row["mse"] == pytest.approx(expected_mse(name, math.log(3), 100_000, domain))
        assert row["bits"] == pytest.approx(bits_per_user(name, math.log(3), domain))
        assert row["budget"] == gpu_rsfd.mechanism(name, math.log(3), 4, 7).budget
        assert row["label"] == gpu_rsfd.label(name)
    losses = {row["name"]: (row["loss_one"], row["loss_all"], row["loss_is"]) for row in found["protocols"]}
    assert losses["smp-grr"] == pytest.approx((math.log(3), math.log(3), "exact"), abs=1e-6)
    assert losses["spl-grr"][:2] == pytest.approx((math.log(3) / 4, math.log(3)), abs=1e-6)
    assert losses["rsfd-grr"][1] > math.log(3)
    assert losses["smp-l-grr"] == pytest.approx((math.log(3) / 2, math.log(3) / 2, "first"), abs=1e-6)


def test_an_equal_guarantee(monkeypatch, capsys):
    rows = json.loads(listed(monkeypatch, capsys, "--guarantee", "user", "--json"))["protocols"]
    assert all(row["loss_all"] <= 1 for row in rows)
    assert sum(row["loss_all"] > 0.999 for row in rows) > 15


def test_tables_for_people_and_documents(monkeypatch, capsys):
    text = listed(monkeypatch, capsys, "--protocol", "smp-grr,rsfd-*")
    lines = text.splitlines()
    assert lines[0].startswith("at ε = 1, d = 5, k = 10, n = 10,000, guarantee=paper;")
    names = [line.split()[0].lstrip("*") for line in lines[3:-2]]
    assert names == ["smp-grr", *(name for name in gpu_rsfd.PROTOCOLS if name.startswith("rsfd-"))]
    marked = [line.split()[0] for line in lines[3:-2] if line.startswith("*")]
    assert marked == [f"*{name}" for name in gpu_rsfd.PAPER if name.startswith("rsfd-")]
    assert lines[1].split()[-2:] == ["one", "any"]
    assert lines[-2].startswith("* the paper's six")
    assert "*" not in listed(monkeypatch, capsys, "--protocol", "smp-grr")
    assert "(default: all)" in " ".join(listed(monkeypatch, capsys, "--help").replace("│", " ").split())
    rows = listed(monkeypatch, capsys, "--protocol", "smp-grr", "--markdown").splitlines()
    assert rows[0].startswith("At ε = 1")
    assert len({line.count("|") for line in rows[2:]}) == 1
    assert rows[-1].startswith("| `smp-grr` | Smp[GRR] | grr | the sampled attribute, and which it is | 1.000 | 5.6 |")
    assert float(rows[-1].split("|")[7]) == pytest.approx(expected_mse("smp-grr", 1.0, 10_000, (10,) * 5), rel=5e-3)


def test_what_can_not_be_run_is_said(monkeypatch, capsys):
    text = listed(monkeypatch, capsys, "--protocol", "smp-grr,spl-oue", "--epsilon", "1e-7")
    assert text.splitlines()[-1].startswith("– 1 can't be run here; spl-oue: epsilon=1e-07 is too small for spl-oue")
    assert next(line for line in text.splitlines() if "spl-oue" in line).split()[-5:] == ["–"] * 5
    rows = json.loads(listed(monkeypatch, capsys, "--protocol", "spl-oue", "--epsilon", "1e-7", "--json"))["protocols"]
    assert rows[0]["mse"] is None
    assert "too small" in rows[0]["problem"]


@pytest.mark.parametrize("words,message", [
    (["--epsilon", "1,2"], "epsilon has 2 numbers; one is needed here"),
    (["--attributes", "0"], "attributes=0 must be a whole number from 1 to 65,535"),
    (["--values", "1"], "values=1 must be a whole number from 2 to 65,535"),
    (["--users", "x"], "users=x must be a whole number"),
    (["--json", "--markdown"], "--json and --markdown exclude each other"),
    (["--protocol", "foo-*"], "protocol=foo-* matches none; available: rsfd-grr"),
    (["--guarantee", "none"], "unknown guarantee 'none'"),
])  # fmt: skip
def test_bad_input(words, message, monkeypatch, capsys, tmp_path):
    (line,) = refusal(monkeypatch, capsys, tmp_path, ["protocols", *words])
    assert message in line


def test_the_loss_is_called_exact_but_for_rounding(monkeypatch, capsys):
    assert "loss: exact but for rounding (docs/privacy.md), if users" in listed(monkeypatch, capsys)


def test_families():
    known = ["a-1", "a-2", "b-1"]
    assert expanded(["a-*"], known, "x") == ["a-1", "a-2"]
    assert expanded(["all"], known, "x") == known
    assert expanded(["b-1", "*-1", "a-1"], known, "x") == ["b-1", "a-1"]
    assert expanded(["a-1", "a-1", "c"], known, "x") == ["a-1", "a-1", "c"]  # no pattern: said by those who check names
    assert len(gpu_rsfd.Spec.of(protocols="all").protocols) == len(gpu_rsfd.PROTOCOLS)
    names = [p.name for p in gpu_rsfd.Spec.of(protocols=["smp-a*", "smp-?ue"]).protocols]
    assert names == ["smp-adp", "smp-oue", "smp-sue", "smp-rue"]


def test_families_from_a_sweep_to_its_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    made = ["--users", "300", "--attributes", "2", "--values", "3", "--epsilon", "1", "--repetitions", "2"]
    assert call(monkeypatch, "sweep", *made, "--protocol", "smp-?[ru][re],rsfd-grr", "--no-plot", "--quiet") == 0
    result = gpu_rsfd.open_results("results.h5")["uniform-n300-d2-k3"]
    assert result.protocols == ("smp-grr", "smp-oue", "smp-sue", "smp-rue", "rsfd-grr")
    assert call(monkeypatch, "show", "results.h5", "--protocol", "rsfd-*,smp-[or]*", "--csv") == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split(",")[4] for line in lines] == ["smp-oue", "smp-rue", "rsfd-grr"]
    (line,) = refusal(monkeypatch, capsys, tmp_path, ["show", "results.h5", "--protocol", "spl-*"])
    assert "protocol=spl-* matches none; available: smp-grr, " in line
