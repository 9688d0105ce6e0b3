"""`gpu-rsfd plan`: one's own data, another number of users, whose frequencies are meant, targets out of reach."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import refusal

import gpu_rsfd
from gpu_rsfd.protocols import PrivacySettings
from gpu_rsfd.show import planned as shown
from gpu_rsfd.theory import needs as planning
from gpu_rsfd.theory.expected import expected_mse

ROOT = Path(__file__).parents[2]
USER = PrivacySettings(guarantee="user")  # the default of `plan`


@pytest.fixture
def people(tmp_path):
    rows = [f"{'f' if i % 3 else 'm'},{i % 17},{'' if i % 10 == 0 else 'x' if i % 2 else 'y'}" for i in range(300)]
    (tmp_path / "people.csv").write_text("sex,age,city\n" + "\n".join(rows) + "\n")
    (tmp_path / "domain.json").write_text(json.dumps({"sex": ["f", "m", "other"]}))
    return tmp_path


def planned(monkeypatch, capsys, folder, *arguments):
    from gpu_rsfd.cli.program import main

    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.argv", ["gpu-rsfd", "plan", *arguments])
    with pytest.raises(SystemExit) as exit_info:
        main()
    captured = capsys.readouterr()
    assert exit_info.value.code == 0, captured.err
    return json.loads(captured.out) if "--json" in arguments else captured.out


def test_own_data_as_in_a_sweep(monkeypatch, capsys, people):
    options = ["--dataset", "people.csv", "--columns", "sex,age,city", "--bins", "age=4", "--missing", "drop"]
    options += ["--domain-file", "domain.json", "--epsilon", "1", "--json"]
    (shown,) = planned(monkeypatch, capsys, people, *options)
    data = gpu_rsfd.load_table(
        "people.csv", columns=["sex", "age", "city"], bins={"age": 4}, missing="drop", domain_file="domain.json"
    )
    assert (shown["users"], shown["domain"]) == (270, [3, 4, 2]) == (data.n, list(data.domain))
    for row in shown["rows"]:
        expected = expected_mse(row["protocol"], 1.0, data.n, data.domain, data.frequencies, settings=USER)
        assert row["mse"] == pytest.approx(expected, rel=1e-12)


def test_these_frequencies_another_number_of_users(monkeypatch, capsys, people):
    options = ["--dataset", "people.csv", "--columns", "sex", "--users", "1e6,2e6", "--epsilon", "1"]
    shown = planned(monkeypatch, capsys, people, *options, "--json")
    assert [plan["users"] for plan in shown] == [1_000_000, 2_000_000]
    for plan in shown:
        for row in plan["rows"]:
            expected = expected_mse(row["protocol"], 1.0, plan["users"], [2], [200 / 300, 100 / 300], settings=USER)
            assert row["mse"] == pytest.approx(expected, rel=1e-12)
    assert "people: n = 1,000,000, d = 1, frequencies of its 300 users" in planned(
        monkeypatch, capsys, people, *options
    )


@pytest.mark.slow
def test_whose_frequencies_are_meant(monkeypatch, capsys, tmp_path):
    options = ["--domain", "3", "--epsilon", "8", "--protocol", "smp-grr", "--target-rmse", "0.01"]
    own = planned(monkeypatch, capsys, tmp_path, *options)
    assert "against the frequencies of these n users" in own
    population = planned(monkeypatch, capsys, tmp_path, *options, "--against", "population")
    assert "against the population that the n users are drawn from" in population
    needed = {}
    for against in ("users", "population"):
        (plan,) = planned(monkeypatch, capsys, tmp_path, *options, "--against", against, "--json")
        assert plan["against"] == against
        needed[against] = plan["rows"][0]["users_needed"]
    assert needed["users"] == 5
    assert needed["population"] == 2227  # f (1 - f) / n = 2/9 / n alone takes 2,223
    assert "2,227" in population


@pytest.mark.slow
def test_a_protocol_out_of_reach_is_a_row(monkeypatch, capsys, tmp_path):
    """Spl of ten attributes takes more than 2**53 users for a target that Smp meets with fewer."""
    options = ["--domain", "10x10", "--epsilon", "0.1", "--target-rmse", "2e-6", "--protocol", "smp-oue,spl-oue"]
    table = planned(monkeypatch, capsys, tmp_path, *options)
    (spl,) = [line for line in table.splitlines() if "Spl[OUE]" in line]
    assert spl.endswith("more than 2**53")
    (plan,) = planned(monkeypatch, capsys, tmp_path, *options, "--json")
    smp, spl = plan["rows"]
    assert 2**49 < smp["users_needed"] <= 2**53
    assert smp["unreachable"] is None
    assert spl["users_needed"] is None
    assert spl["unreachable"] == "more than 2**53"


def test_words_come_first_then_columns_then_the_table(monkeypatch, capsys, people):
    options = ["--dataset", "people.csv", "--bins", "age=4", "--epsilon", "1,3", "--no-attack"]
    lines = planned(monkeypatch, capsys, people, *options).splitlines()
    found = gpu_rsfd.plan(gpu_rsfd.load_table("people.csv", bins={"age": 4}), epsilons=[1.0, 3.0], attack=False)
    end = lines.index("")
    assert lines[1:end] == str(found).splitlines()
    assert "nder the guarantee user" in lines[1]
    assert [line.split()[0] for line in lines[end + 3 : end + 6]] == ["sex", "age", "city"]
    (sweep,) = (line for line in lines if line.startswith("  gpu-rsfd sweep"))
    assert sweep.startswith("  gpu-rsfd sweep --dataset people.csv --bins age=4 --protocol rsfd-grr,")
    assert sweep.endswith(" --epsilon 1.0,3.0 --repetitions 100 --seed 0 --guarantee user --output people.h5")


def test_a_target_in_points(monkeypatch, capsys, people):
    options = [
        "--dataset",
        "people.csv",
        "--bins",
        "age=4",
        "--users",
        "1e5",
        "--no-attack",
        "--target",
        "sex=1%,age=2%",
    ]
    (plan,) = planned(monkeypatch, capsys, people, *options, "--json")
    decision = plan["decision"]
    assert decision["reached"] is True
    margins = {column["name"]: (column["margin"], column["target"]) for column in decision["columns"]}
    assert margins["sex"][0] <= margins["sex"][1] == 0.01
    assert margins["age"][0] <= margins["age"][1] == 0.02
    assert margins["city"][1] is None
    assert decision["epsilon"] in [row["epsilon"] for row in plan["rows"]]  # and in the table
    text = planned(monkeypatch, capsys, people, *options)
    assert f"epsilon = {decision['epsilon']:g} under the guarantee user" in text
    assert "it reaches the target with 100,000 users, and epsilon = " in text
    assert "users for the target" in text


@pytest.mark.slow
def test_the_figure_of_a_plan(monkeypatch, capsys, people):
    options = ["--dataset", "people.csv", "--bins", "age=4", "--epsilon", "1,3", "--no-attack", "--target", "10%"]
    assert planned(monkeypatch, capsys, people, *options, "--plot", "plan.svg").endswith("plan.svg written\n")
    assert (people / "plan.svg").read_text().startswith("<?xml")
    found = gpu_rsfd.plan(gpu_rsfd.load_table("people.csv", bins={"age": 4}), epsilons=[1.0, 3.0], target=0.1)
    against_epsilon, against_n, front = found.plot().axes
    targets = [line.get_ydata() for line in against_epsilon.lines if line.get_linestyle() == "--"]
    assert targets == [[10, 10]] * 3
    curve = next(line for line in against_epsilon.lines if line.get_marker() == ".")
    assert max(curve.get_ydata()) == pytest.approx(100 * max(m for m in margins_at(found, 0)))
    assert against_n.get_xlabel() == "users n"
    assert shown.pareto([(1, 5), (2, 3), (2.0001, 4), (3, 3.5), (4, 1)]) == [(1, 5), (2, 3), (4, 1)]
    assert front.lines[-1].get_color() == "#999999"
    assert {x for line in front.lines for x in line.get_xdata()} == {1.0, 3.0}  # not 1e-7 apart


def margins_at(found, e):
    case = found.candidates[0]
    return [case.accuracy(case.choice.protocol, e, j).margin for j in range(3)]


def test_near_ties_share_the_mark():
    rows = [planning.PlanRow("spl-grr", 1.0, mse, 1.0, None, 1.0) for mse in (1.0, 1 + 1e-12, 1 + 1e-6)]
    marks = [cell.endswith("*") for cell in shown._plan_table(rows, {"spl-grr": "Spl[GRR]"}, None).columns[2].cells]
    assert marks == [True, True, False]


def test_a_row_without_an_error():
    (row,) = planning.plan_table(2, (2, 2, 2), [1.0], ["smp-grr"], assignment="balanced")
    assert np.isnan(row.mse)
    assert list(shown._plan_table([row], {"smp-grr": "Smp[GRR]"}, None).columns[2].cells) == [" – "]


def test_rough_errors_are_marked(monkeypatch, capsys, tmp_path):
    options = ["--users", "100", "--domain", "10x20", "--epsilon", "1", "--postprocess", "clip"]
    (plan,) = planned(monkeypatch, capsys, tmp_path, *options, "--target-rmse", "0.9", "--json")
    assert [row["rough"] for row in plan["rows"] if row["protocol"] in ("smp-adp", "spl-adp")] == [False, True]
    assert any(row["users_rough"] for row in plan["rows"])
    assert "~" in planned(monkeypatch, capsys, tmp_path, *options)


@pytest.mark.parametrize("arguments,message", [
    (["--domain", "3", "--target", "sex=1%"], "unknown column 'sex' of target; available: A1"),
    (["--domain", "3", "--target", "1%", "--target-rmse", "0.1"], "target and target_rmse exclude each other"),
    (["--domain", "3", "--plot", "plan.txt"], "figure=plan.txt must end in one of"),
    (["--domain", "3", "--users", "10,20", "--plot", "plan.png"], "--plot and --save are for one data set"),
    (["--domain", "3", "--against", "all"], "unknown against 'all'; available: users, population"),
    (["--dataset", "adult", "--users", "0"], "users=0 must be a whole number >= 1 and <= 2**53"),
    (["--dataset", "adult", "--domain", "3"], "a synthetic data set needs --users and --domain; --users is missing"),
    (["--dataset", "adult", "--columns", "sex"], "--columns needs a file of data"),
    (["--domain", "3", "--bins", "a=3"], "--bins needs a file of data"),
])  # fmt: skip
def test_bad_input(tmp_path, capsys, monkeypatch, arguments, message):
    (error,) = refusal(monkeypatch, capsys, tmp_path, ["plan", *arguments])
    assert message in error
