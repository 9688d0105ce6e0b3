"""`gpu-rsfd plan`: one's own data, another number of users, whose frequencies are meant, targets out of reach."""

import json

import numpy as np
import pytest
from command import refusal

import gpu_rsfd
from gpu_rsfd.protocols import PrivacySettings
from gpu_rsfd.show import planned as shown
from gpu_rsfd.theory import needs as planning
from gpu_rsfd.theory.expected import expected_mse

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


def test_whose_frequencies_are_meant(monkeypatch, capsys, tmp_path):
    options = ["--domain", "3", "--epsilon", "8", "--protocol", "smp-grr", "--target-rmse", "0.01"]
    own = planned(monkeypatch, capsys, tmp_path, *options)
    assert "against these n users' own frequencies" in own
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


def test_near_ties_share_the_mark():
    rows = [planning.PlanRow("spl-grr", 1.0, mse, 1.0, None, 1.0) for mse in (1.0, 1 + 1e-12, 1 + 1e-6)]
    marks = [cell.endswith("*") for cell in shown._plan_table(rows, None).columns[2].cells]
    assert marks == [True, True, False]


def test_a_row_without_an_error():
    (row,) = planning.plan_table(2, (2, 2, 2), [1.0], ["smp-grr"], assignment="balanced")
    assert np.isnan(row.mse)
    assert list(shown._plan_table([row], None).columns[2].cells) == [" – "]


def test_rough_errors_are_marked(monkeypatch, capsys, tmp_path):
    options = ["--users", "100", "--domain", "10x20", "--epsilon", "1", "--postprocess", "clip"]
    (plan,) = planned(monkeypatch, capsys, tmp_path, *options, "--target-rmse", "0.9", "--json")
    assert [row["rough"] for row in plan["rows"] if row["protocol"] in ("smp-adp", "spl-adp")] == [False, True]
    assert any(row["users_rough"] for row in plan["rows"])
    assert "~" in planned(monkeypatch, capsys, tmp_path, *options)


@pytest.mark.parametrize("arguments,message", [
    (["--domain", "3", "--against", "all"], "unknown against 'all'; available: users, population"),
    (["--dataset", "adult", "--users", "0"], "users=0 must be a whole number >= 1 and <= 2**53"),
    (["--dataset", "adult", "--domain", "3"], "--dataset and --domain exclude each other"),
    (["--dataset", "adult", "--columns", "sex"], "--columns needs a file of data"),
    (["--domain", "3", "--bins", "a=3"], "--bins needs a file of data"),
])  # fmt: skip
def test_bad_input(tmp_path, capsys, monkeypatch, arguments, message):
    (error,) = refusal(monkeypatch, capsys, tmp_path, ["plan", *arguments])
    assert message in error
