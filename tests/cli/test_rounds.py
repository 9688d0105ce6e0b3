"""`gpu-rsfd rounds`: its data, its files, and what it says to bad input."""

import shlex

import numpy as np
import pandas
import pyarrow
import pytest
from command import call, refusal

import gpu_rsfd
from gpu_rsfd.datasets.evolving import ChangingDataset
from gpu_rsfd.datasets.options import parse_options
from gpu_rsfd.results.estimate import DEFAULT, STORED

SMALL = ["--users", "200", "--domain", "3,4", "--epsilon", "1", "--protocol", "rsfd-l-grr,smp-l-osue", "--no-plot"]
WIDE = "id,h_1,m_1,h_2,m_2,h_3,m_3\n" + "".join(
    f"{i},{i % 4},{'abc'[i % 3]},{(i + i // 7) % 4},{'abc'[i % 3]},{(i * i) % 5},{'ab'[i % 2]}\n" for i in range(60)
)
ROUNDS_IN = ["--rounds-in", "hours=h_*,mood=m_*"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wide.csv").write_text(WIDE)
    (tmp_path / "gaps.csv").write_text(WIDE.replace("7,3,b,0", "7,3,b,"))
    (tmp_path / "pivoted.csv").write_text("h_1,h_10,h_2\na,b,a\n")
    (tmp_path / "first.csv").write_text(WIDE.replace("7,3,b,0", "7,,b,0"))
    return tmp_path


@pytest.mark.slow
def test_a_file_is_resumed_extended_and_shown(monkeypatch, capsys):
    made = ["rounds", *SMALL, "--rounds", "4", "--change", "0.3", "--keep", "counts", "--attack"]
    assert call(monkeypatch, *made, "--repetitions", "2", "--output", "a.h5") == 0
    assert call(monkeypatch, *made, "--repetitions", "3", "--output", "a.h5") == 0
    assert call(monkeypatch, *made, "--repetitions", "3", "--output", "b.h5") == 0
    a, b = (next(iter(gpu_rsfd.open_results(f"{name}.h5").values())) for name in "ab")
    assert {"counts", "mse", "mse_mean", "spent", "spent_published", "spent_any", "claim_success"} <= set(a.arrays)
    for name in a.arrays:
        assert np.array_equal(a[name], b[name], equal_nan=True), name
    assert a.counts.shape == (2, 1, 3, 4, 7)
    assert a["mse"].shape == (2, 1, 3, 4, 4)
    data = gpu_rsfd.SyntheticDataset(200, (3, 4), name="uniform-n200-d2")
    result = gpu_rsfd.rounds(
        data, rounds=4, change=0.3, protocols=["rsfd-l-grr"], epsilons=1.0, repetitions=3, keep="counts"
    )
    assert np.array_equal(result.counts[0], a.counts[0])
    assert np.array_equal(a.error(), a["mse"][..., STORED.index(DEFAULT)])
    for asked in (a.estimates, lambda: a.error("mae"), lambda: a.to_dataframe("value")):
        with pytest.raises(gpu_rsfd.InputError, match=r"^the counts of several rounds give no estimates"):
            asked()
    capsys.readouterr()
    assert call(monkeypatch, "show", "a.h5") == 0
    shown = capsys.readouterr().out
    for words in (
        "MSE_avg (clip-normalize) of a round",
        "epsilon spent by nine users in ten at most",
        "value is guessed",
        "sampled attribute is guessed",
    ):
        assert words in shown or words.replace("value is", "values that are") in shown, words
    assert "worst user" not in shown  # the number of one user
    lines = refusal(monkeypatch, capsys, ".", [*made, "--rounds", "5", "--quiet", "--output", "a.h5"], last=False)
    assert "  rounds: 4 in the file, 5 asked for" in lines


@pytest.mark.parametrize("option, line", [
    (["--rounds", "3"], "rounds: 4 in the file, 3 asked for"),
    (["--change", "0.2"], "change: 0.3 in the file, 0.2 asked for"),
])  # fmt: skip
def test_data_with_other_rounds_are_not_said_to_have_changed(monkeypatch, capsys, here, option, line):
    made = ["rounds", *SMALL, "--repetitions", "1", "--output", "c.h5", "--quiet"]
    usual = ["--rounds", "4", "--change", "0.3"]
    assert call(monkeypatch, *made, *usual) == 0
    usual[usual.index(option[0]) + 1] = option[1]
    assert refusal(monkeypatch, capsys, here, [*made, *usual], last=False)[1:] == [f"  {line}"]
    other = ["--data-seed", "7"]
    lines = refusal(monkeypatch, capsys, here, [*made, *usual, *other], last=False)
    assert lines[1:] == [f"  {line}", "  uniform-n200-d2: seed 0 in the file, 7 asked for"]


def test_a_table_with_rounds_is_not_said_to_stay_the_same(monkeypatch, capsys):
    asked = ["rounds", "--epsilon", "1", "--protocol", "smp-l-grr", "--repetitions", "1", "--no-plot", "--output"]
    assert call(monkeypatch, *asked, "own.h5", "--dataset", "wide.csv", *ROUNDS_IN) == 0
    assert "; 3 rounds, memo on; " in capsys.readouterr().out
    assert call(monkeypatch, *asked, "made.h5", *SMALL[:4], "--rounds", "3", "--change", "0.5") == 0
    assert "; 3 rounds, change=0.5, memo on; " in capsys.readouterr().out


def test_every_guarantee_has_a_file(monkeypatch):
    """A run is packed, read and shown whatever epsilon bounds; not only the default."""
    asked = ["--rounds", "2", "--repetitions", "1", "--quiet", "--output", ""]
    for guarantee in ("user", "attribute"):
        asked[-1] = f"{guarantee}.h5"
        assert call(monkeypatch, "rounds", *SMALL, *asked, "--guarantee", guarantee) == 0
        assert gpu_rsfd.open_results(asked[-1]).spec["guarantee"] == guarantee


def test_spent_is_what_the_values_say():
    """One value for ever: the loss of so many reports of one memo, whoever the user is; at most epsilon."""
    data = gpu_rsfd.EvolvingDataset(np.zeros((5, 1, 40), int), (4,))
    result = gpu_rsfd.rounds(data, protocols=["spl-l-grr", "spl-l-osue"], epsilons=2.0, repetitions=1)
    spent = result.spent[:, 0, 0, :, 0]
    assert spent[:, 0] == pytest.approx(1.0, abs=1e-6)
    assert spent[:, -1] == pytest.approx(2.0, abs=1e-2)
    assert (np.diff(spent, axis=1) > -1e-12).all()
    assert spent.max() <= 2.0 + 1e-6
    assert result.spent_published[:, 0, 0, -1] == pytest.approx(2.0)
    codes = np.arange(40)[None, None] % 2 * np.ones((5, 1, 1), int)
    both = gpu_rsfd.rounds(gpu_rsfd.EvolvingDataset(codes, (4,)), protocols="spl-l-grr", epsilons=2.0, repetitions=1)
    assert both.spent[0, 0, 0, -1, 3] == pytest.approx(2 * result.spent[0, 0, 0, 19, 3])


def test_a_wide_table_is_an_array(monkeypatch):
    assert call(monkeypatch, "rounds", "--dataset", "wide.csv", *ROUNDS_IN, *SMALL[4:], "--repetitions", "1") == 0
    result = gpu_rsfd.open_results("rounds.h5")["wide"]
    assert result.spec["rounds"] == 3
    assert result.labels == (("0", "1", "2", "3", "4"), ("a", "b", "c"))
    rows = [line.split(",") for line in WIDE.splitlines()[1:]]
    codes = [[[int(row[1 + 2 * r]), "abc".index(row[2 + 2 * r])] for r in range(3)] for row in rows]
    data = gpu_rsfd.EvolvingDataset(np.array(codes).swapaxes(1, 2), (5, 3), ("hours", "mood"))
    loaded = gpu_rsfd.load_table("wide.csv", rounds_in={"hours": "h_*", "mood": "m_*"})
    for r in range(3):
        assert np.array_equal(loaded.counts_of_rounds[r], data.counts_of_rounds[r])
        assert np.array_equal(loaded.column(0, 5, 50, r), data.column(0, 5, 50, r))
    again = gpu_rsfd.rounds(data, protocols=["rsfd-l-grr", "smp-l-osue"], epsilons=1.0, repetitions=1)
    assert np.array_equal(again["mse"], result["mse"])
    last = gpu_rsfd.load_table("gaps.csv", rounds_in="h_*", missing_rounds="last")
    assert last.column(0, 7, 8, 1) == last.column(0, 7, 8, 0) == 3
    moved = pandas.DataFrame({"h_1": ["a", "b"], "h_2": ["b", None], "h_3": [None, "a"], "h_4": [None, None]})
    held = gpu_rsfd.load_table(moved, rounds_in="h_*", missing_rounds="last")  # of the round before, not the first
    assert [held.column(0, 0, 2, r).tolist() for r in range(4)] == [[0, 1], [1, 1], [1, 0], [1, 0]]


def test_values_change_as_often_as_asked():
    base = gpu_rsfd.SyntheticDataset(4000, (5,), "zipf:1", seed=3)
    data = ChangingDataset(base, 9, 0.25)
    each = np.stack([data.column(0, 0, 4000, r) for r in range(9)])
    moved = (each[1:] != each[:-1]).mean()
    wanted = 0.25 * (1 - (base.frequencies**2).sum())
    assert abs(moved - wanted) < 5 * np.sqrt(wanted / 32_000)
    assert np.array_equal(data.column(0, 64, 128, 8), each[8, 64:128])  # in any order
    assert np.array_equal(data.counts_of_rounds[8], np.bincount(each[8], minlength=5))
    assert np.array_equal(ChangingDataset(base, 3, 0.25).column(0, 0, 4000, 2), each[2])


@pytest.mark.parametrize("arguments,words", [
    (["--protocol", "smp-adp"], "smp-adp has no second step"),
    (["--first-report", "1.5"], "first_report=1.5 must be > 0 and <= 1"),
    (["--sampler", "counts"], "sampler='counts' can't be used in rounds; available: users, marginals"),
    (["--sampler", "marginals", "--attack"], "attack=True needs sampler=users"),
    (["--backend", "native"], "backend=native can't be used in rounds; available: auto, numpy"),
    (["--device", "0"], "backend=cupy can't be used in rounds; available: auto, numpy"),
    (["--device", "0", "--backend", "numpy"], "devices=[0] cannot be used with backend 'numpy'; available: auto, cupy"),
    (["--fakes", "memo,new"], "unknown fakes 'new'; available: memo, independent, fixed, fresh"),
    (["--fakes", "memo,memo"], "fakes 'memo' is given twice"),
    (["--memo", "off", "--fakes", "fixed"], "fakes=fixed needs --memo on"),
    (["--change", "1.5"], "change=1.5 must be >= 0 and <= 1"),
    (["--rounds", "99999"], "rounds=99999 must be a whole number from 1 to 65,536"),
    (["--rounds", "0"], "rounds=0 must be a whole number from 1 to 65,536"),
    (["--dataset", "wide.csv", *ROUNDS_IN, "--rounds", "4"], "rounds=4, but 'wide' has 3"),
    (["--dataset", "wide.csv", *ROUNDS_IN, "--change", "0.1"], "whose values have rounds already"),
    (["--dataset", "wide.csv", "--rounds-in", "h_*,m_[12]"], "rounds_in: h=h_* fits 3, m 12=m_[12] fits 2 columns"),
    (["--dataset", "wide.csv", "--rounds-in", "h_*,m=x_*"], "rounds_in: h=h_* fits 3, m=x_* fits 0 columns"),
    (["--dataset", "wide.csv", "--rounds-in", "h_*,m=m_1*"], "m=m_1* fits 1 columns; each needs two or more"),
    (["--dataset", "wide.csv", "--rounds-in", "h_*,first=h_1"], "column 'h_1' is twice in rounds_in: leave it out"),
    (["--dataset", "wide.csv", "--rounds-in", "h_1"], "rounds_in: h_1=h_1 fits 1 columns; each needs two"),
    (["--dataset", "wide.csv", "--rounds-in", "h_*", "--bins", "h_1=3"], "name what rounds_in makes of it: h"),
    (["--dataset", "wide.csv", "--rounds-in", "h_*", "--missing-values", "h_1=3"], "column 'h_1' is one round; name"),
    (["--dataset", "wide.csv", "--rounds-in", "hours=h_*", "--missing-values", "hours=3"], "column 'h_1' has missing"),
    (["--dataset", "wide.csv", "--rounds-in", "m=x_*"], "no columns chosen of wide.csv; columns: id, h_1"),
    (["--dataset", "wide.csv", "--missing-rounds", "last"], "missing_rounds=last needs rounds_in"),
    (["--protocol", "smp-l-*", "--fakes", "fresh"], "fakes=fresh needs a protocol that makes fakes: RS+FD or RS+RFD"),
    (["--protocol", "spl-l-*", "--sampling", "fresh"], "sampling=fresh needs a protocol that samples attributes"),
    (["--dataset", "pivoted.csv", "--rounds-in", "h_*"], "in their order (--columns): it is hardly h_1, h_10, h_2"),
    (["--dataset", "wide.csv", "--rounds-in", "h_*,h=m_*"], "rounds_in=h_*,h=m_* must give each attribute a name"),
    (["--dataset", "wide.csv", *ROUNDS_IN, "--exclude", "h_2"], "hours=h_* fits 2, mood=m_* fits 3 columns"),
    (["--dataset", "wide.csv", *ROUNDS_IN, "--exclude", "hours,mood"], "no columns chosen of wide.csv"),
    (["--dataset", "wide.csv", *ROUNDS_IN, "--exclude", "moods"], "wide.csv has no column 'moods'; columns: id, h_1"),
    (["--dataset", "wide.csv", "--rounds-in", "h=h_*,m=h"], "rounds_in: h=h_* fits 3, m=h fits 0 columns"),
    (["--dataset", "first.csv", "--rounds-in", "m_*,h_1"], "column 'h_1' has missing values: drop these users"),
    (["--dataset", "gaps.csv", "--rounds-in", "h_*"], "or take the value before (missing_rounds=last), or both"),
])  # fmt: skip
def test_bad_input_is_one_line(monkeypatch, capsys, here, arguments, words):
    size = [] if "--dataset" in arguments else SMALL[:4]
    assert words in refusal(monkeypatch, capsys, here, ["rounds", *size, "--epsilon", "1", *arguments, "--no-plot"])[-1]
    assert not list(here.glob("rounds.h5*"))


def test_a_forgotten_rounds_in_is_proposed(monkeypatch, capsys):
    """What the note says can be pasted; names that pandas or a user gave codes in memory are no rounds."""
    assert call(monkeypatch, "data", "wide.csv") == 0
    (note,) = (line for line in capsys.readouterr().out.splitlines() if "as rounds of one: " in line)
    words = shlex.split(note.partition("as rounds of one: ")[2])
    assert words == ["--rounds-in", "h=h_*", "--rounds-in", "m=m_*"]
    asked = ["rounds", "--dataset", "wide.csv", *SMALL[4:], "--repetitions", "1", "--exclude", "id"]
    assert call(monkeypatch, *asked, "--rounds", "2", "--output", "flat.h5") == 0
    assert note in capsys.readouterr().err
    assert call(monkeypatch, *asked, *words) == 0
    shown = capsys.readouterr().err
    assert "as rounds of one" not in shown
    assert "Note:\n  h has 3 rounds: h_1, h_2, h_3\n  m has 3 rounds: m_1, m_2, m_3\n" in shown
    assert gpu_rsfd.open_results("rounds.h5")["wide"].names == ("h", "m")
    assert gpu_rsfd.describe("wide.csv", columns=["h_1", "h_2", "m_1"]).notes == []
    assert gpu_rsfd.describe(gpu_rsfd.load_dataset("nursery")).notes == []
    assert gpu_rsfd.describe(gpu_rsfd.Dataset([[0, 1, 0], [1, 0, 1]], (2, 2, 2))).notes == []


@pytest.mark.parametrize("name", ["q[{}]", "a={}", "{}", "a,{}", "a*{}", "it's {}", "é{}_x"])
def test_whatever_columns_are_called_the_proposed_option_finds_them(name):
    frame = pandas.DataFrame({**{name.format(r): ["a", "b"] for r in range(3)}, "other": ["c", "d"]})
    chosen = {"exclude": ["other"]} if name == "{}" else {}  # nothing but a number is any name
    (note,) = gpu_rsfd.describe(frame).notes
    _, given = shlex.split(note.partition("as rounds of one: ")[2])
    data = gpu_rsfd.load_table(frame, **parse_options({"rounds-in": [given]}), **chosen)
    assert (data.d, data.rounds, data.labels) == (1, 3, (("a", "b"),))


def test_columns_without_rounds_are_named_or_stay(here):
    assert gpu_rsfd.describe("wide.csv", rounds_in="h_*").notes == [
        "columns that rounds_in does not name are not used: id, m_1, m_2, m_3",
        "h has 3 rounds: h_1, h_2, h_3",
    ]
    assert gpu_rsfd.describe("wide.csv", rounds_in="h_*", exclude=["id", "m_1", "m_2", "m_3"]).notes == [
        "h has 3 rounds: h_1, h_2, h_3"
    ]
    data = gpu_rsfd.load_table("wide.csv", rounds_in=["h_*", "m_1"], exclude=["id", "m_2", "m_3"])
    assert (data.names, data.rounds, data.domain) == (("h", "m_1"), 3, (5, 3))
    once = gpu_rsfd.load_table("wide.csv", columns=["m_1"])
    for r in range(3):
        assert np.array_equal(data.column(1, 0, 60, r), once.column(0, 0, 60))
    (here / "ids.csv").write_text("id,h_1,h_2\n" + "".join(f"u{i},{i % 2},1\n" for i in range(400)))
    with pytest.raises(gpu_rsfd.InputError, match="column 'id' looks like an identifier, with 400 values"):
        gpu_rsfd.load_table("ids.csv", rounds_in=["h_*", "id"])


@pytest.mark.parametrize("names,gap", [
    ("mood_1 mood_2 mood_4", "mood_2 and mood_4"),
    ("phq9_1 phq9_2 phq9_4 phq9_5", "phq9_2 and phq9_4"),
    ("y2019 y2020 y2022", "y2020 and y2022"),
    ("m_2023_01 m_2023_02 m_2023_04", "m_2023_02 and m_2023_04"),
    ("m_2023_11 m_2023_12 m_2024_01", None),
    ("m202311 m202312 m202401", None),
    ("q20233 q20234 q20241", None),
    ("m_0 m_10 m_20", None),
    ("before after late", None),
])  # fmt: skip
def test_a_missing_round_is_noted(names, gap):
    frame = pandas.DataFrame({name: ["a", "b"] * 10 for name in names.split()})
    notes = gpu_rsfd.describe(frame, rounds_in={"x": "*"}).notes
    assert notes[1:] == ([] if gap is None else [f"x has no round between {gap}"])


def test_rounds_of_other_types_hold_the_same_numbers():
    """A missing value makes numbers of a pandas column floats."""
    frame = pandas.DataFrame({"h_1": [1, 2, 3, 1], "h_2": [1, None, 3, 1]})
    assert gpu_rsfd.load_table(frame, rounds_in="h_*", missing_rounds="last").labels == (("1", "2", "3"),)
    texts = frame.assign(h_1=["1", "2", "3", "1"])
    assert gpu_rsfd.load_table(texts, rounds_in="h_*", missing_rounds="last").labels == (("1", "2", "3"),)
    other = pandas.DataFrame({"h_1": [i % 40 for i in range(400)], "h_2": [f"word {i % 9}" for i in range(400)]})
    (column,) = gpu_rsfd.describe(other, rounds_in="h_*").columns  # no numbers, for which bins would be proposed
    assert (column.kind, column.k) == ("mixed", 49)


def test_a_value_of_few_users_stays_rare_over_many_rounds():
    rare = pandas.DataFrame({f"h_{r}": ["a"] * 91 + ["b"] * 9 for r in range(20)})
    assert [row[1:] for row in gpu_rsfd.describe(rare, rounds_in="h_*").columns[0].commonest] == [(None, None)] * 2
    enough = pandas.DataFrame({f"h_{r}": ["a"] * 90 + ["b"] * 10 for r in range(20)})
    assert gpu_rsfd.describe(enough, rounds_in="h_*").columns[0].commonest[1] == ("b", 200, 0.1)


def test_one_user_in_many_rounds_is_one_user():
    """Neither are the numbers of one user those of ten, nor do twelve months make an identifier a value of many."""
    pay = [999.0, *np.random.Generator(np.random.Philox(1)).integers(20, 60, 99)]
    months = pandas.DataFrame({f"pay_{r}": pay for r in range(12)})
    once = gpu_rsfd.load_table(months[["pay_0"]], bins={"pay_0": 5})
    assert gpu_rsfd.load_table(months, rounds_in="pay_*", bins={"pay": 5}).labels == once.labels
    cards = pandas.DataFrame({f"card_{r}": [f"c{i}" for i in range(100)] for r in range(12)})
    with pytest.raises(gpu_rsfd.InputError, match="column 'card' looks like an identifier, with 100 values"):
        gpu_rsfd.load_table(cards, rounds_in="card_*")
    codes = np.random.Generator(np.random.Philox(2)).integers(0, 90, (100, 12))  # each is held by many
    seen = pandas.DataFrame({f"code_{r}": [f"c{i}" for i in codes[:, r]] for r in range(12)})
    assert gpu_rsfd.load_table(seen[:40], rounds_in="code_*").domain == (90,)
    spoiled = months.astype(str)
    spoiled.loc[7, "pay_2"] = "much"
    with pytest.raises(gpu_rsfd.InputError, match="bins of 'pay' need numbers, but row 8 of 'pay_2' holds"):
        gpu_rsfd.load_table(spoiled, rounds_in="pay_*", bins={"pay": 5})


def test_a_round_that_cannot_be_read_is_named():
    table = pyarrow.table({"h_1": ["a", "b"], "h_2": [[1], [2]]})
    with pytest.raises(gpu_rsfd.InputError, match=r"^column 'h_2' has type list<"):
        gpu_rsfd.load_table(table, rounds_in="h_*")


def values(data, j):
    """An attribute's values by round, users in order."""
    return [" ".join(data.labels[j][v] for v in data.column(j, 0, data.n, r)) for r in range(data.rounds)]


def test_users_who_lack_a_value_in_a_round_are_dropped(here):
    """Of what is left after the round before has filled gaps; what stays the same in all rounds can be lacking, too."""
    refused = r"column 'h_1' has missing values: drop these users \(missing=drop\)$"
    for asked in ({"rounds_in": "h_*", "missing_rounds": "last"}, {"rounds_in": "m_*,h_1"}):
        with pytest.raises(gpu_rsfd.InputError, match=refused):
            gpu_rsfd.load_table("first.csv", **asked)
    (here / "few.csv").write_text("mood_1,mood_2,mood_3,sex\na,a,b,f\nb,,a,m\n,b,a,f\na,b,a,\nb,a,b,m\n")
    asked = {"rounds_in": "mood=mood_*,sex", "missing": "drop"}
    found = gpu_rsfd.describe("few.csv", **asked)
    assert (found.rows, found.users, found.problems) == (5, 2, ())
    assert "few.csv: 5 rows (2 without missing values), 2 columns" in str(found)
    assert [values(found.dataset(), j) for j in (0, 1)] == [["a b", "a a", "b b"], ["f m"] * 3]
    filled = gpu_rsfd.load_table("few.csv", **asked, missing_rounds="last")
    assert [values(filled, j) for j in (0, 1)] == [["a b b", "a b a", "b a b"], ["f m m"] * 3]
    (here / "known.toml").write_text('mood = ["a"]\n')
    with pytest.raises(gpu_rsfd.InputError, match="column 'mood' holds in row 5 of 'mood_1' a value that is not"):
        gpu_rsfd.load_table("few.csv", **asked, domain_file="known.toml")


def test_columns_and_exclude_take_the_names_of_attributes():
    asked = {"rounds_in": "hours=h_*,mood=m_*,id"}
    whole = gpu_rsfd.load_table("wide.csv", **asked, keep_identifiers=["id"])
    assert whole.names == ("hours", "mood", "id")
    assert repr(whole) == "EvolvingDataset('wide', n=60, d=3, k=[5, 3, 60], rounds=3)"
    for chosen, names in (
        ({"exclude": ["id"]}, ("hours", "mood")),  # as the report of an identifier proposes
        ({"exclude": ["id", "mood"]}, ("hours",)),
        ({"exclude": ["id", "m_1", "m_2", "m_3"]}, ("hours",)),
        ({"columns": ["mood", "hours"]}, ("mood", "hours")),
        ({"columns": ["mood", "id", "h_1", "h_2", "h_3"], "exclude": ["id"]}, ("mood", "hours")),
    ):
        data = gpu_rsfd.load_table("wide.csv", **asked, **chosen)
        assert data.names == names, chosen
        for j, name in enumerate(names):
            assert values(data, j) == values(whole, whole.names.index(name))


def test_the_order_of_rounds_is_told_and_can_be_given():
    names = ["mood_11_2023", "mood_12_2023", "mood_01_2024"]
    frame = pandas.DataFrame({name: [*row] for name, row in zip(names, ("aab", "abb", "bba"), strict=True)})
    frame["sex"] = [*"fmf"]
    asked = {"rounds_in": "mood=mood_*,sex"}
    with pytest.raises(gpu_rsfd.InputError, match=r"list the columns of 'mood' in their order \(--columns\): it is"):
        gpu_rsfd.load_table(frame, **asked, columns=["sex", "mood"])
    found = gpu_rsfd.describe(frame, **asked, columns=[*names, "sex"])
    assert found.notes == ["mood has 3 rounds: mood_11_2023, mood_12_2023, mood_01_2024"]
    assert values(found.dataset(), 0) == ["a a b", "a b b", "b b a"]
    turned = gpu_rsfd.load_table(frame, **asked, columns=["sex", *reversed(names)])
    assert (turned.names, values(turned, 1)) == (("sex", "mood"), ["b b a", "a b b", "a a b"])
    many = pandas.DataFrame({f"mood_{r}": ["a", "b"] for r in range(1, 25)})
    assert gpu_rsfd.describe(many, rounds_in="mood_*").notes == ["mood has 24 rounds: mood_1, mood_2, …, mood_24"]
    assert gpu_rsfd.describe(many, rounds_in="mood_1*").notes[1].startswith("mood_1 has 11 rounds: mood_1, mood_10, ")


def test_attributes_are_named_in_a_text_a_list_or_a_table(monkeypatch, here):
    whole = {"hours": "h_*", "mood": "m_*"}
    for given in ("hours=h_*,mood=m_*", ["hours=h_*", "mood=m_*"], whole):
        assert gpu_rsfd.load_table("wide.csv", rounds_in=given).names == ("hours", "mood")
    (here / "spec.toml").write_text(
        'dataset = "wide.csv"\nprotocol = ["smp-l-grr"]\nepsilon = 1\nrepetitions = 1\n'
        'rounds-in = {hours = "h_*", mood = "m_*"}\n'
    )
    assert call(monkeypatch, "rounds", "--spec", "spec.toml", "--no-plot", "--quiet") == 0
    assert gpu_rsfd.open_results("rounds.h5")["wide"].names == ("hours", "mood")
    numbered = pandas.DataFrame({f"2023_{month}": ["a", "b"] for month in (10, 11, 12)})
    assert gpu_rsfd.describe(numbered).notes[0].endswith(" --rounds-in 'value=*_*'")
    assert gpu_rsfd.load_table(numbered, rounds_in="*_*").names == ("value",)
    equals = pandas.DataFrame({name: ["a", "b"] for name in ("m=1", "m=2", "sex")})
    assert gpu_rsfd.load_table(equals, rounds_in={"mood": "m=*", "sex": "sex"}).names == ("mood", "sex")


def test_bad_arrays_are_one_line():
    codes = np.zeros((4, 1, 3), int)
    codes[2, 0, 1] = 5
    with pytest.raises(gpu_rsfd.InputError, match=r"codes\[:, 0, 1\] holds 5, outside 0 … 2"):
        gpu_rsfd.EvolvingDataset(codes, (3,))
    with pytest.raises(gpu_rsfd.InputError, match=r"an array \[users, attributes, rounds\] is needed"):
        gpu_rsfd.EvolvingDataset(codes[:, :, 0], (3,))
    with pytest.raises(gpu_rsfd.InputError, match=r"codes is not an array \[users, attributes, rounds\]: "):
        gpu_rsfd.EvolvingDataset([[[0, 1], [0]]], (3, 3))
    with pytest.raises(gpu_rsfd.InputError, match="rounds=0 must be a whole number from 1 to 65,536"):
        gpu_rsfd.EvolvingDataset(codes[:, :, :0], (3,))
    with pytest.raises(gpu_rsfd.InputError, match="masked"):
        gpu_rsfd.EvolvingDataset(np.ma.masked_equal(codes, 5), (3,))


def test_a_value_held_for_many_rounds_is_one_value():
    data = gpu_rsfd.EvolvingDataset(np.zeros((3, 1, 300), int), (4,))
    result = gpu_rsfd.rounds(data, protocols="smp-l-grr", epsilons=1.0, repetitions=1)
    assert result.spent_published[0, 0, 0, :, 3].tolist() == [1.0] * 300
    assert result.spent[0, 0, 0, -1, 3] == pytest.approx(1, abs=1e-6)
    assert "counts" not in result.arrays  # unless they are asked for
