"""From a messy file to a decision: data, plan with the options that a look at it suggests, sweep, page."""

import json
import re
import shlex

import messy
import pytest
from command import call

UNDER = "under the guarantee user (epsilon limits what a report reveals about a user as a whole)"
DECISIONS = {  # the first sentences
    "hospital": [
        f"Use Smp[ADP] with epsilon = ln 6 (1.79) {UNDER}: the smallest epsilon tried at which 4 of 7 columns "
        "are useful, no fewer than at the largest.",
        "With 3,000 users, 95 % of the estimated shares are this close to the truth: Geschlecht ± 7.2 points,"
        " as accurate as asking 120 people without privacy; Diagnose ± 7.5 points, as asking 100 people; "
        "Blutgruppe ± 7.5 points, as asking 100 people; Pflegegrad ± 7.5 points, as asking 100 people.",
        "Someone who sees a report, and knows only each column's statistics, guesses a user's Pflegegrad, if it is "
        "the column that is sent, right 60 % of the time instead of 21 %, the largest gain of all columns; a report "
        "changes the odds of anything about a user by a factor of at most 6.0; every further report, say each month, "
        "costs as much again. It can raise the probability of Station = Station 7 from 7.3 % to at most 31.9 %.",
        "If 1 % of the users lie, and all of them send Diagnose, they can raise the share of one of its values by "
        "up to 10.9 points.",
        "Twice as many users would narrow the widest margin, that of Pflegegrad, from ± 7.5 to ± 5.3 points; "
        "epsilon = ln 7 (odds up to 7.0) would narrow it to ± 6.9 points; epsilon = ln 5 (odds up to 5.0) "
        "would widen it to ± 8.5 points, and make Diagnose and 2 other columns useless.",
        "Better left out, since it would tell less than asking 100 people without privacy: Alter (± 8.5 "
        "points, as asking 47 people; useful from about 6,400 users on), Station (± 8.9 points, as asking 36 "
        "people; useful from about 8,200 users on), Gewicht (± 8.5 points, as asking 47 people; useful from "
        "about 6,400 users on); without collecting them, the widest margin would be ± 5.6 points, not 7.5.",
    ],
    "survey": [
        f"Use Smp[ADP] with epsilon = ln 7 (1.95) {UNDER}: the smallest epsilon tried at which 1 of 4 columns "
        "is useful.",
        "With 1,200 users, 95 % of the estimated shares are this close to the truth: satisfied ± 7.8 points, "
        "as accurate as asking 100 people without privacy.",
    ],
    "wide": [
        "Under the guarantee user (epsilon limits what a report reveals about a user as a whole), no column "
        "is worth collecting from 400 users, not even with epsilon = ln 7, the largest tried: each would tell"
        " less than asking 100 people without privacy.",
        "The first to become useful would be q191 (nobody reports it with a chance of 12 %; useful from about"
        " 54,000 users on).",
    ],
    "typed": [
        f"Use Smp[ADP] with epsilon = ln 6 (1.79) {UNDER}: the smallest epsilon tried at which 3 of 5 columns "
        "are useful, no fewer than at the largest.",
        "With 2,500 users, 95 % of the estimated shares are this close to the truth: state ± 6.4 points, as "
        "accurate as asking 190 people without privacy; valid ± 5.7 points, as asking 240 people; day ± 6.9 "
        "points, as asking 120 people.",
    ],
    "events": [
        f"Use Smp[ADP] with epsilon = ln 7 (1.95) {UNDER}: the smallest epsilon tried at which all 4 columns "
        "are useful.",
        "With 1,500 users, 95 % of the estimated shares are this close to the truth: event ± 7.0 points, as "
        "accurate as asking 130 people without privacy; seconds ± 7.2 points, as asking 100 people; mobile ± "
        "6.8 points, as asking 160 people; room ± 7.0 points, as asking 130 people.",
    ],
    "large": [
        f"Use Smp[ADP] with epsilon = ln 2 (0.69) {UNDER}: the smallest epsilon tried at which all 3 columns "
        "are useful.",
        "With 2,000,000 users, 95 % of the estimated shares are this close to the truth: amount ± 0.69 "
        "points, as accurate as asking 7,300 people without privacy; country ± 0.69 points, as asking 2,000 "
        "people; kind ± 0.52 points, as asking 26,000 people.",
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


OPTIONS = {  # what one gives after a look at `gpu-rsfd data`
    "hospital": "--encoding cp1252 --decimal , --exclude Fall-Nr,Klinik,Geburtsdatum --bins Alter=10,Gewicht=10 "
    "--missing-values Diagnose=-,k.A.,n.a.",
    "survey": "--exclude respondent,comment,wave --missing-values #N/A,None",
    "wide": "--exclude key,q7,q40,q57,q80,q107,q120,q157,q160",
    "typed": "--exclude trace,at --bins value=10 --missing-values n.a.",
    "events": "--exclude day --bins seconds=0:15:30:45:60:90 --missing-values room=-",
    "large": "--exclude id,time --bins amount=10",
}


def decided(printed, name, folder, *more):
    """`data`, then `plan` with options: the sentences, and the words of the sweep and of the page."""
    path, options = getattr(messy, name)(folder), OPTIONS[name].split(" ")
    assert "Resolve before use:" in printed("data", path.name, *options[: 4 * (name == "hospital")]) or name == "events"
    assert "Resolve before use:" not in printed("data", path.name, *options)
    lines = printed("plan", "--dataset", path.name, *options, *more).splitlines()
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


@pytest.mark.slow
def test_a_hospitals_export(printed, tmp_path):
    pytest.importorskip("vl_convert")
    sentences, sweep, page = decided(printed, "hospital", tmp_path)
    assert sentences == DECISIONS["hospital"]
    printed(*sweep, "--quiet", "--no-plot")
    printed(*page)
    title, entries = opened(tmp_path, page[-1])
    assert title == "hospital"
    assert [text for text in entries if text in sentences] == sentences[:5]  # beside what a phone sends
    assert re.fullmatch(r"In the 100 simulated collections of this file, 9[45]\.\d % of the estimated .*", entries[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["survey", "wide", "typed", "events", "large"])
def test_other_files(printed, tmp_path, name):
    pytest.importorskip("vl_convert")
    quick = ["--no-attack"] if name == "wide" else []  # all of 200 columns takes long
    sentences, sweep, page = decided(printed, name, tmp_path, *quick)
    assert sentences[:2] == DECISIONS[name]
    printed(*sweep, "--quiet", "--no-plot", "--repetitions", "3")
    fewer = ["--epsilon", "ln7"] if name == "wide" else []
    printed(*page, *fewer)
    title, entries = opened(tmp_path, page[-1])
    assert title == name
    if not fewer:
        assert [text for text in entries if text in sentences] == sentences[:5]  # beside what a phone sends
    assert "no column is worth collecting" in entries[0] or name != "wide"
