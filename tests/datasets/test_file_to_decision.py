"""From a messy file to a decision by three commands, as they print each other: data, plan, sweep with page."""

import json
import re
import shlex

import messy
import pytest
from command import call

pytest.importorskip("pyarrow")

UNDER = "under the guarantee user (epsilon limits what a report reveals about a user as a whole)"
DECISIONS = {
    "hospital": [
        f"Use Smp[ADP] with epsilon = ln 5 (1.61) {UNDER}: the smallest epsilon tried at which 4 of 8 columns "
        "are useful, no fewer than at the largest.",
        "With 3,000 users, 95 % of the estimated shares are this close to the truth: Geschlecht ± 7.4 points;"
        " Diagnose ± 9.0 points; Blutgruppe ± 9.1 points; Pflegegrad ± 9.1 points.",
        "Someone who sees a report, and knows only each column's statistics, guesses a user's Pflegegrad "
        "right 25 % of the time instead of 21 %, the largest gain of all columns; a report changes the odds "
        "of anything about a user by a factor of at most 5.0.",
        "Twice as many users would narrow the widest margin, that of Pflegegrad, from ± 9.1 to ± 6.4 points; "
        "epsilon = ln 6 (odds up to 6.0) would narrow it to ± 8.0 points; epsilon = ln 4 (odds up to 4.0) "
        "would widen it to ± 10.8 points, and make Blutgruppe and 1 other column useless.",
        "Better left out, since the error exceeds the signal, so that guessing equal shares is closer to the "
        "truth: Alter (error 5.5 points, signal 0.66; useful from 13,422 users on), Geburtsdatum (error 5.9 "
        "points, signal 0.27; useful from 1,001,751 users on), Station (error 5.7 points, signal 0.54; useful"
        " from 21,474 users on), Gewicht (error 5.5 points, signal 0.61; useful from 13,422 users on); "
        "without collecting them, the widest margin would be ± 6.3 points, not 9.1.",
    ],
    "survey": [
        f"Use Smp[ADP] with epsilon = ln 5 (1.61) {UNDER}: the smallest epsilon tried at which 3 of 4 columns "
        "are useful, no fewer than at the largest.",
        "With 1,200 users, 95 % of the estimated shares are this close to the truth: satisfied ± 8.9 points; "
        "visits ± 10.0 points; age group ± 10.0 points.",
        "Someone who sees a report, and knows only each column's statistics, guesses a user's visits right 30"
        " % of the time instead of 21 %, the largest gain of all columns; a report changes the odds of "
        "anything about a user by a factor of at most 5.0.",
        "Twice as many users would narrow the widest margin, that of visits, from ± 10.0 to ± 7.1 points; "
        "epsilon = ln 6 (odds up to 6.0) would narrow it to ± 8.8 points; epsilon = ln 4 (odds up to 4.0) "
        "would widen it to ± 11.9 points, and make visits and 1 other column useless.",
        "Better left out, since the error exceeds the signal, so that guessing equal shares is closer to the "
        "truth: employer (error 6.6 points, signal 0.73; useful from 95,561 users on); without collecting it,"
        " the widest margin would be ± 8.6 points, not 10.0.",
    ],
    "wide": [
        "Under the guarantee user (epsilon limits what a report reveals about a user as a whole), no column "
        "is worth collecting from 400 users, not even with epsilon = ln 7, the largest tried: every error "
        "exceeds its signal.",
        "The first to become useful would be q11 (error 54.0 points, signal 3.8; useful from 24,557 users on).",
    ],
    "typed": [
        f"Use Smp[ADP] with epsilon = ln 5 (1.61) {UNDER}: the smallest epsilon tried at which 4 of 6 columns "
        "are useful, no fewer than at the largest.",
        "With 2,500 users, 95 % of the estimated shares are this close to the truth: state ± 7.7 points; at ±"
        " 7.6 points, 1 of 3 values can't be distinguished from zero; valid ± 6.8 points; day ± 8.6 points.",
        "Someone who sees a report, and knows only each column's statistics, guesses a user's day right 27 % "
        "of the time instead of 22 %, the largest gain of all columns; a report changes the odds of anything "
        "about a user by a factor of at most 5.0.",
        "Twice as many users would narrow the widest margin, that of day, from ± 8.6 to ± 6.1 points; epsilon"
        " = ln 6 (odds up to 6.0) would narrow it to ± 7.6 points; epsilon = ln 4 (odds up to 4.0) would "
        "widen it to ± 10.2 points, and make day useless.",
        "Better left out, since the error exceeds the signal, so that guessing equal shares is closer to the "
        "truth: sensor (error 5.3 points, signal 0.57; useful from 12,817 users on), value (error 5.3 points,"
        " signal 2.9; useful from 8,639 users on); without collecting them, the widest margin would be ± 6.9 "
        "points, not 8.6.",
    ],
    "events": [
        f"Use Smp[ADP] with epsilon = ln 4 (1.39) {UNDER}: the smallest epsilon tried at which 3 of 5 columns "
        "are useful, no fewer than at the largest.",
        "With 1,500 users, 95 % of the estimated shares are this close to the truth: event ± 10.4 points; "
        "mobile ± 10.5 points; room ± 11.3 points.",
        "Someone who sees a report, and knows only each column's statistics, guesses a user's mobile right 41"
        " % of the time instead of 34 %, the largest gain of all columns; a report changes the odds of "
        "anything about a user by a factor of at most 4.0.",
        "Twice as many users would narrow the widest margin, that of room, from ± 11.3 to ± 8.0 points; "
        "epsilon = ln 5 (odds up to 5.0) would narrow it to ± 9.6 points; epsilon = ln 3 (odds up to 3.0) "
        "would widen it to ± 14.6 points, and make room useless.",
        "Better left out, since the error exceeds the signal, so that guessing equal shares is closer to the "
        "truth: day (error 8.0 points, signal 0.82; useful from 20,964 users on), seconds (error 7.5 points, "
        "signal 0.79; useful from 12,851 users on); without collecting them, the widest margin would be ± 8.6"
        " points, not 11.3.",
    ],
    "large": [
        f"Use Smp[ADP] with epsilon = ln 2 (0.69) {UNDER}: the smallest epsilon tried at which all 4 columns "
        "are useful.",
        "With 2,000,000 users, 95 % of the estimated shares are this close to the truth: time ± 0.80 points; "
        "amount ± 0.80 points; country ± 0.79 points; kind ± 0.52 points.",
        "Someone who sees a report, and knows only each column's statistics, guesses a user's amount right "
        "11.2 % of the time instead of 10.0 %, the largest gain of all columns; a report changes the odds of "
        "anything about a user by a factor of at most 2.0.",
        "Twice as many users would narrow the widest margin, that of amount, from ± 0.80 to ± 0.57 points; "
        "epsilon = ln 3 (odds up to 3.0) would narrow it to ± 0.50 points.",
    ],
}


@pytest.fixture
def printed(tmp_path, monkeypatch, capsys):
    """Runs a command in a folder of its own: what it prints."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = call(monkeypatch, *arguments)
        out, err = capsys.readouterr()
        assert code == 0, err
        return out

    return run


def decided(printed, make, folder, *more):
    """`data`, then `plan` with the options that it ends with: the sentences, and the words of the sweep."""
    path = make(folder)
    words = shlex.split(printed("data", path.name).splitlines()[-1])
    assert words[:3] == ["gpu-rsfd", "data", path.name]
    lines = printed("plan", "--dataset", path.name, *words[3:], *more).splitlines()
    sentences = lines[1 : lines.index("")]
    (sweep,) = (line for line in lines if line.startswith("  gpu-rsfd sweep "))
    assert "--guarantee user" in sweep
    assert lines[-1] == f"  gpu-rsfd page {path.name.split('.')[0]}.h5"
    return sentences, shlex.split(sweep)[1:], shlex.split(lines[-1])[1:]


def opened(folder, page):
    text = (folder / page.replace(".h5", ".html")).read_text("utf-8")
    found = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])
    return found["title"], [
        entry["text"].replace("\u00a0", " ") for entry in found["datasets"][0]["decision"]["entries"]
    ]


def test_a_hospitals_export(printed, tmp_path):
    pytest.importorskip("vl_convert")
    sentences, sweep, page = decided(printed, messy.hospital, tmp_path)
    assert sentences == DECISIONS["hospital"]
    printed(*sweep, "--quiet", "--no-plot")
    printed(*page)
    title, entries = opened(tmp_path, page[-1])
    assert title == "hospital"
    assert entries[:4] == sentences[:4]
    assert re.fullmatch(r"In the 100 simulated collections of this file, 9[45]\.\d % of the estimated .*", entries[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["survey", "wide", "typed", "events", "large"])
def test_other_files(printed, tmp_path, name):
    pytest.importorskip("vl_convert")
    quick = ["--no-attack"] if name == "wide" else []  # all of 200 columns takes long
    sentences, sweep, page = decided(printed, getattr(messy, name), tmp_path, *quick)
    assert sentences == DECISIONS[name]
    printed(*sweep, "--quiet", "--no-plot", "--repetitions", "3")
    fewer = ["--epsilon", "ln7"] if name == "wide" else []
    printed(*page, *fewer)
    title, entries = opened(tmp_path, page[-1])
    assert title == name
    if not fewer:
        assert entries[:4] == sentences[:4]
    assert "no column is worth collecting" in entries[0] or name != "wide"
