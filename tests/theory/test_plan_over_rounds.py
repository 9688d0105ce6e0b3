"""`plan --rounds`: what users will have spent, and what an attacker then knows, against enumeration."""

import json
import math
import re
import shlex
from itertools import pairwise, product

import numpy as np
import pytest
from command import call, refusal
from stats import normal_bound

import gpu_rsfd
from gpu_rsfd import PrivacySettings
from gpu_rsfd.protocols import Bits
from gpu_rsfd.protocols.chains import loss

SMALL = ["--users", "50000", "--domain", "3,3", "--epsilon", "2"]
ROUNDS = [*SMALL, "--rounds", "3", "--change", "0.25"]


def planned(protocol, frequencies, rounds, change=None, **more):
    """The numbers of a plan, for values with these frequencies."""
    data = gpu_rsfd.CountedDataset(50_000, [len(f) for f in frequencies], frequencies)
    found = gpu_rsfd.plan(data, protocols=protocol, epsilons=2.0, rounds=rounds, change=change, **more)
    return found.decisions[0].rounds


def block(protocol, k, d, rounds):
    """[value, reports]: P(all reports | value held), by enumeration of memos and reports."""
    m = gpu_rsfd.mechanisms(protocol, 2.0, (k,) * d, PrivacySettings(memo=True, guarantee="user"))[0]
    p1, q1, p2, q2 = m.recipe.noise.steps(k)
    memo, second = np.where(np.eye(k) > 0, p1, q1), np.where(np.eye(k) > 0, p2, q2)
    if isinstance(m.recipe.noise.memo, Bits):
        bits = np.array(list(product((0, 1), repeat=k)))
        rates, on = memo[:, None], np.where(bits, p2, q2)[:, None]
        memo = np.prod(np.where(bits, rates, 1 - rates), axis=2)
        second = np.prod(np.where(bits, on, 1 - on), axis=2)
    together = np.ones((len(second), 1))
    for _ in range(rounds):
        together = (together[:, :, None] * second[:, None, :]).reshape(len(second), -1)
    return memo @ together


def near(found, share):
    """A share of 10,000 simulated users, at a false-alarm rate of 1e-6."""
    assert abs(found - share) < normal_bound(1) * math.sqrt(share * (1 - share) / 10_000), (found, share)


@pytest.mark.parametrize("protocol", ["spl-l-grr", "smp-l-osue", "rsfd-l-grr"])
def test_a_value_that_never_changes(protocol):
    """One column: the loss of so many reports of one memo; the best guess from all sequences of reports."""
    f = np.array([0.5, 0.3, 0.2])
    found = planned(protocol, [f], 3)
    m = gpu_rsfd.mechanisms(protocol, 2.0, (3,), PrivacySettings(memo=True, guarantee="user"))[0]
    assert found[:5] == (3, 0.0, *[pytest.approx(float(loss(m.recipe.noise, 3, 3)), abs=1e-9)] * 2, 10_000)
    share = (f[:, None] * block(protocol, 3, 1, 3)).max(axis=0).sum()
    near(found.value, share)
    assert found.claim == found.value
    with pytest.raises(AssertionError):
        near(found.value, (f[:, None] * block(protocol, 3, 1, 1)).max(axis=0).sum())  # of one report


def test_the_sampled_column_of_fakes_that_are_remembered():
    """The larger of both likelihoods, over all pairs of reports: real ones follow the frequencies, fakes don't."""
    f = np.array([0.8, 0.1, 0.1])
    found = planned("rsfd-l-grr", [f, f], 2)
    reports = block("rsfd-l-grr", 3, 2, 2)
    odds = f @ reports / reports.mean(axis=0)
    fake = reports.mean(axis=0)
    near(found.sampled, (np.outer(fake, fake) * np.maximum(odds[:, None], odds) / 2).sum())


@pytest.mark.parametrize("protocol", ["smp-l-grr", "smp-l-osue"])
def test_what_is_spent_where_values_change(protocol):
    """The mean over all sequences of values: every value held costs what its reports lose."""
    k, rounds, change, f = 3, 4, 0.25, np.array([0.5, 0.3, 0.2])
    found = planned(protocol, [f], rounds, change, attack=False)
    m = gpu_rsfd.mechanisms(protocol, 2.0, (k,), PrivacySettings(memo=True, guarantee="user"))[0]
    lost = loss(m.recipe.noise, k, np.arange(rounds + 1))
    each, rates = [], []
    for values in product(range(k), repeat=rounds):
        rate = f[values[0]]
        for a, b in pairwise(values):
            rate *= change * f[b] + (1 - change) * (a == b)
        rates.append(rate)
        each.append(lost[np.bincount(values)].sum())
    assert sum(rates) == pytest.approx(1)
    mean, square = (np.dot(rates, np.power(each, i)) for i in (1, 2))
    bound = normal_bound(1) * math.sqrt((square - mean**2) / 10_000)
    assert abs(found.spent - mean) < bound
    assert abs(float(lost[rounds]) - mean) > bound  # nobody changes
    room = normal_bound(1) * math.sqrt(0.09 / 10_000)
    below, upto = (np.dot(rates, np.array(each) < found.spent_nine_tenths + gap) for gap in (-1e-9, 1e-9))
    assert below - room < 0.9 < upto + room
    assert found[4:] == (0, *[pytest.approx(math.nan, nan_ok=True)] * 3, None)


def test_two_sentences_more_with_these_numbers(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    documents = []
    for words in (ROUNDS, SMALL):
        given = [*words, "--protocol", "rsfd-l-grr", "--json"]
        assert call(monkeypatch, "plan", *given) == 0
        documents.append(json.loads(capsys.readouterr().out)[0])
    found = documents[0]["decision"].pop("rounds")
    *others, spent, known = documents[0]["decision"].pop("sentences")
    assert others == documents[1]["decision"].pop("sentences")
    assert documents[0] == documents[1]  # nothing else changes
    assert (found["rounds"], found["change"], found["users"]) == (3, 0.25, 10_000)
    numbers = r"spent at most (\S+) on average, nine in ten at most (\S+), a factor of (\S+) in odds, "
    mean, most, odds = (float(x) for x in re.search(numbers, spent).groups())
    assert odds == pytest.approx(math.exp(most), rel=0.1)
    assert 0 <= mean - found["spent"] < 0.01
    assert 0 <= most - found["spent_nine_tenths"] < 0.01
    assert "after 3 rounds, before each of which a value is drawn anew with probability 0.25; every" in spent
    assert spent.endswith(" The margins, and which columns are useful, are those of one round.")
    shares = [int(x) for x in re.findall(r"(\d+) %", known)]
    assert shares[::2] == [round(100 * found[name]) for name in ("value", "claim", "sampled")]
    assert shares[1::2] == [33, 33, 50]
    data = gpu_rsfd.CountedDataset.of_distribution(50_000, (3, 3), name="x")
    python = gpu_rsfd.plan(data, protocols="rsfd-l-grr", epsilons=2.0, rounds=3, change=0.25)
    assert python.decisions[0].sentences[-2:] == (spent, known)
    assert python.decisions[0].rounds._asdict() == found | {"command": None}  # made in Python
    assert call(monkeypatch, "plan", *SMALL, "--rounds", "1", "--no-attack") == 0
    text = capsys.readouterr().out
    assert re.search(r"^With .*, users have spent 1\.00 on average after 1 round; every", text, re.M)
    assert "epsilon bounds all reports of a value" in text
    assert "What an attacker guesses from all these reports was not simulated." in text
    for name in ("Spl[L-GRR]", "Smp[L-OSUE]", "RS+FD[L-OSUE-z]"):  # without --protocol
        assert name in text


def test_what_one_report_raises_is_of_the_first_one():
    codes = np.arange(4000)[:, None] % [4, 3]
    data = gpu_rsfd.Dataset(codes, (4, 3), labels=[list("abcd"), list("xyz")], name="x")
    for protocol, subject in (("smp-l-grr", "The first report"), ("smp-grr", "It")):
        asked = {"protocols": protocol, "epsilons": 2.0, "rounds": 3 if protocol == "smp-l-grr" else None}
        plan = gpu_rsfd.plan(data, attack=False, sensitive="A1=d", **asked)
        assert f" {subject} can raise the probability of A1 = d " in plan.decisions[0].sentences[2]


def test_what_is_spent_says_of_what():
    """Without the guarantee `user`, less than the first report can tell of all columns together."""
    words = " (of one column, if the others are known); every further value"
    for protocol, guarantee, wanted in (
        ("rsfd-l-grr", "paper", True), ("rsfd-l-grr", "user", False), ("smp-l-grr", "paper", False),
    ):  # fmt: skip
        plan = gpu_rsfd.plan(
            gpu_rsfd.CountedDataset.of_distribution(50_000, (3, 3), name="x"),
            **{"protocols": protocol, "epsilons": 2.0, "guarantee": guarantee, "rounds": 3, "attack": False},
        )
        assert (words in plan.decisions[0].sentences[-2]) == wanted, (protocol, guarantee)


def test_rare_values_change_nothing(tmp_path):
    """Nobody can read the number of their holders off the ledger or the attack."""
    found = []
    for few in (2, 9):
        rows = [f"{'yes' if i * 7 % 3000 < few else 'no'},{'abc'[i * i % 7 % 3]}" for i in range(3000)]
        (tmp_path / "t.csv").write_text("\n".join(["hiv,ward", *rows]))
        plan = gpu_rsfd.plan(tmp_path / "t.csv", protocols="rsfd-l-grr", epsilons=1.0, rounds=2, change=0.2)
        found.append(plan.decisions[0].rounds)
    assert found[0] == found[1]


@pytest.mark.parametrize("arguments,words", [
    (["--rounds", "0"], "rounds=0 must be a whole number from 1 to 65,536"),
    (["--rounds", "3", "--change", "1.5"], "change=1.5 must be >= 0 and <= 1"),
    (["--rounds", "3", "--change", "-0.1"], "change=-0.1 must be >= 0 and <= 1"),
    (["--rounds", "3", "--change", "5%"], "change='5%' must be a number >= 0 and <= 1"),  # as `gpu-rsfd rounds` says
    (["--rounds", "3.5"], "rounds=3.5 must be a whole number, such as 1000, 1e6"),
    (["--change", "0.1"], "change=0.1 needs rounds, such as --rounds 12"),
    (["--rounds", "3", "--protocol", "smp-adp"], "smp-adp has no second step, so it can't be collected in rounds"),
    (["--rounds", "3", "--save", "collection.json"], "--save and --rounds exclude each other"),
    (["--rounds", "3", "--first-report", "1.5"], "first_report=1.5 must be > 0 and <= 1"),
])  # fmt: skip
def test_bad_input_is_one_line(monkeypatch, capsys, tmp_path, arguments, words):
    assert words in refusal(monkeypatch, capsys, tmp_path, ["plan", *SMALL, *arguments])[-1]


def test_values_that_have_rounds_are_not_planned():
    data = gpu_rsfd.EvolvingDataset(np.zeros((5, 1, 4), int), (3,), name="wide")
    with pytest.raises(gpu_rsfd.InputError, match=r"^rounds=3, but 'wide' has its own; gpu-rsfd rounds simulates"):
        gpu_rsfd.plan(data, rounds=3)


@pytest.mark.parametrize("more", [[], ["--no-attack"]])
@pytest.mark.parametrize("data", [["--users", "3000", "--domain", "3,4"], ["--dataset", "t.csv", "--bins", "age=3"]])
def test_the_evidence_is_what_both_sentences_say(monkeypatch, capsys, tmp_path, data, more):
    """The last command that a plan prints runs, on the same data, and gives the numbers of the plan."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("sex,age\n" + "".join(f"{'mf'[i % 2]},{i * 7 % 90}\n" for i in range(3000)))
    asked = [*data, *more, "--epsilon", "1,3", "--rounds", "3", "--change", "0.5", "--first-report", "0.6"]
    assert call(monkeypatch, "plan", *asked, "--json", "--quiet") == 0
    decision = json.loads(capsys.readouterr().out)[0]["decision"]
    assert call(monkeypatch, "plan", *asked, "--quiet") == 0
    *_, sweep, page, command = capsys.readouterr().out.splitlines()
    assert sweep.startswith("  gpu-rsfd sweep")
    assert page.startswith("  gpu-rsfd page")
    assert command.strip() == decision["rounds"]["command"]
    assert call(monkeypatch, *shlex.split(command)[1:], "--no-plot", "--quiet") == 0
    (result,) = gpu_rsfd.open_results(shlex.split(command)[-1]).values()
    assert (result.protocols, result.epsilons) == ((decision["protocol"],), (decision["epsilon"],))
    assert [result.spec[name] for name in ("rounds", "change", "first_report", "guarantee")] == [3, 0.5, 0.6, "user"]
    assert (result.n, "value_success" in result.arrays) == (3000, not more)
    assert result.spent[0, 0, 0, -1, 0] == pytest.approx(decision["rounds"]["spent"], rel=0.05)
    if not more:
        assert result.value_success[..., -1].mean() == pytest.approx(decision["rounds"]["value"], abs=0.03)


def test_one_round_of_several_is_said_to_be_one(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wide.csv").write_text("h_1,h_2\n" + "".join(f"{i % 3},{i % 2}\n" for i in range(600)))
    wide = ["--dataset", "wide.csv", "--rounds-in", "h=h_*", "--epsilon", "1", "--protocol"]
    assert call(monkeypatch, "plan", *wide, "smp-grr", "--no-attack") == 0
    assert "; data: wide.csv, round 1 of 2\n" in capsys.readouterr().out
    for command, protocol, one in (
        ("sweep", "smp-grr", True),
        ("attack", "smp-grr", True),
        ("rounds", "smp-l-grr", False),
    ):
        assert call(monkeypatch, command, *wide, protocol, "--repetitions", "1", "--no-plot", "--overwrite") == 0
        assert ("; data: wide.csv, round 1 of 2" in capsys.readouterr().out) == one
