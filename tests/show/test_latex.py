"""`show --latex`: a table that LaTeX can set, with the numbers and marks of the table on the screen."""

import re
from dataclasses import replace

import pytest
from command import call, refusal
from files import store

import gpu_rsfd
from gpu_rsfd.results.result import Results
from gpu_rsfd.show.comparison import among_best
from gpu_rsfd.show.latex import document, escaped
from gpu_rsfd.show.summary import summary

DATA = gpu_rsfd.SyntheticDataset(300, (3, 4), "zipf:1", name="a_b & 50% {x}")


@pytest.fixture(scope="module")
def result():
    return gpu_rsfd.simulate(DATA, epsilons=[0.6931471805599453, 1.5], repetitions=5, seed=1)


def cells_of(text):
    lines = [line for line in text.splitlines() if line.endswith(r" \\") and not line.startswith("protocol")]
    return [line.removesuffix(r" \\").split(" & ") for line in lines]


def test_numbers_and_marks(result):
    text = document(Results({DATA.name: result}), "clip-normalize")
    unit = int(re.search(r"\$\[10\^\{(-?\d+)\}\]\$", text)[1])
    assert r"$\varepsilon = \ln 2$ & $\varepsilon = 1.5$ \\" in text
    assert text.splitlines().count(r"\toprule") == text.splitlines().count(r"\bottomrule") == 1
    assert r"\begin{tabular}{lrr}" in text
    mean, _ = summary(result, "clip-normalize")
    best = among_best(result, "clip-normalize")
    for p, (label, *cells) in enumerate(cells_of(text)):
        assert label == result.plan.looks[p].label
        for e, cell in enumerate(cells):
            assert cell.startswith(r"\textbf{") == bool(best[p, e])
            digits, error = re.fullmatch(r"(?:\\textbf\{)?([\d.]+)\((\d+)\)\}?", cell).groups()
            shown = float(digits) * 10.0**unit
            assert shown == pytest.approx(mean[p, e], abs=10.0**unit * 10 ** -len(digits.partition(".")[2]))
            assert 1 <= len(error) <= 3


def test_text_is_escaped(result):
    assert escaped(r"a_b & 50% {x} #1 $ ~ ^ \ ") == (
        r"a\_b \& 50\% \{x\} \#1 \$ \textasciitilde{} \textasciicircum{} \textbackslash{} "
    )
    look = result.plan.looks[0]._replace(label="[odd]")
    odd = replace(result, plan=replace(result.plan, looks=(look, *result.plan.looks[1:])))
    text = document(Results({DATA.name: odd}), "clip-normalize")
    assert r"\caption{a\_b \& 50\% \{x\}: n = 300" in text
    assert r"\label{tab:a-b-50-x}" in text
    assert "\n{[odd]} & " in text  # after \\ a bracket would be an argument


def test_numbers_far_apart_have_their_own_power_of_ten(result):
    mse = result.mse().copy()
    mse[0] *= 1e-6
    apart = replace(result, errors=mse[..., None].repeat(4, axis=-1))
    cells = [cell for _, *row in cells_of(document(Results({"x": apart}), "clip-normalize")) for cell in row]
    assert all(re.fullmatch(r"(?:\\textbf\{)?\$[\d.]+\(\d+\) \\cdot 10\^\{-\d+\}\$\}?", cell) for cell in cells)


def test_the_command(result, monkeypatch, capsys, tmp_path):
    store(tmp_path / "r.h5", [DATA], [result])
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, "show", "r.h5", "--latex", "--protocol", "smp-adp,rsfd-grr", "--epsilon", "ln2") == 0
    assert [len(row) for row in cells_of(capsys.readouterr().out)] == [2, 2]
    for given, message in (
        (["--csv"], "--csv and --latex exclude each other"),
        (["--per", "value"], "--latex and --per exclude each other"),
        (["--compare", "smp-adp,rsfd-grr"], "--latex and --compare exclude each other"),
    ):
        (line,) = refusal(monkeypatch, capsys, tmp_path, ["show", "r.h5", "--latex", *given])
        assert message in line


def test_an_attack(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    gpu_rsfd.attack(DATA, epsilons=[1.0, 2.0], protocols=["rsfd-grr", "spl-grr"], repetitions=2, output="a.h5")
    assert call(monkeypatch, "show", "a.h5", "--latex", "--protocol", "spl-grr", "--epsilon", "2") == 0
    text = capsys.readouterr().out
    assert text.count(r"\begin{table}") == 2
    assert "share of values that are guessed; without a report: 0." in text
    assert cells_of(text)[0] == ["Spl[GRR]", "--"]
    assert call(monkeypatch, "show", "a.h5", "--protocol", "spl-grr", "--epsilon", "2") == 0
    shown = capsys.readouterr().out
    assert "Spl[GRR]" in shown
    assert "RS+FD" not in shown.replace("Spl, Smp and RS+FD", "")
