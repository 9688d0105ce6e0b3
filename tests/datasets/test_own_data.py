"""One's own table through `sweep`, `show` and `plot`, and `paper`, by the real command line."""

import json

import numpy as np
import pytest
from command import refusal, run

import gpu_rsfd

CSV = """sex,age,city,pay
f,23,Paris,12.5
m,45,Lyon,
f,31,,30
m,67,Paris,50.2
f,52,Nice,41
m,18,Paris,?
f,39,Lyon,22
"""
OPTIONS = ["--bins", "age=3,pay=2q", "--epsilon", "1,3", "--repetitions", "5"]


@pytest.fixture
def people(tmp_path):
    (tmp_path / "people.csv").write_text(CSV)
    return tmp_path


@pytest.mark.slow
def test_text_numbers_and_missing_values(people):
    done = run("sweep", "--dataset", "people.csv", *OPTIONS, cwd=people)
    assert "people: n = 7, d = 4, 5 repetitions" in done.stdout
    result = gpu_rsfd.open_results(people / "results.h5")["people"]
    assert result.names == ("sex", "age", "city", "pay")
    assert result.labels[2] == ("Lyon", "Nice", "Paris", "(missing)")
    assert result.domain == (2, 3, 4, 3)
    data = gpu_rsfd.load_table(people / "people.csv", bins={"age": 3, "pay": "2q"})
    direct = gpu_rsfd.simulate(data, epsilons=[1, 3], repetitions=5)
    assert np.array_equal(result.counts, direct.counts)
    assert direct.labels == result.labels
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset(people / "results.h5", engine="h5netcdf", group="people") as stored:
        assert stored.frequency.sel(value="city=Paris") == pytest.approx(3 / 7)
    rows = json.loads(run("show", "results.h5", "--json", cwd=people).stdout)["rows"]
    assert {row["dataset"] for row in rows} == {"people"}
    run("plot", "results.h5", "--attribute", "city", "--output", "city.svg", cwd=people)
    drawn = (people / "city.svg").read_text()
    assert "<!-- Nice -->" in drawn
    assert "<!-- city -->" in drawn


@pytest.mark.slow
def test_columns_missing_and_resume(people):
    options = [*OPTIONS[2:], "--dataset", "people.csv", "--columns", "sex,city", "--missing", "drop", "--no-plot"]
    run("sweep", *options, "--quiet", cwd=people)
    result = gpu_rsfd.open_results(people / "results.h5")["people"]
    assert (result.n, result.names) == (6, ("sex", "city"))
    assert "nothing to do" in run("sweep", *options, cwd=people).stderr
    (people / "people.csv").write_text(CSV.replace("Lyon", "Nice"))  # another table is another sweep
    assert (
        "holds the results of another run; give another --output" in run("sweep", *options, cwd=people, code=2).stderr
    )


@pytest.mark.parametrize("arguments,message", [
    (["--dataset", "nobody.csv"], "nobody.csv does not exist"),
    (["--dataset", "people.csv", "--columns", "sex,town"], "people.csv has no column 'town'; columns: sex, age"),
    (["--dataset", "people.csv", "--bins", "age"], "bins=age must be COLUMN=BINS, such as age=10"),
    (["--dataset", "people.csv", "--bins", "city=4"], "bins of 'city' need numbers"),
    (["--dataset", "people.csv", "--columns", "city", "--missing", "error"], "column 'city' has 1 missing values"),
    (["--dataset", "people.csv", "--missing", "hide"], "unknown missing 'hide'; available: category, drop, error"),
    (["--dataset", "syn1", "--columns", "sex"], "--columns needs a file of data"),
    (["--users", "5", "--domain", "2", "--missing", "drop"], "--missing needs a file of data"),
    (["--dataset", "adult", "--data-dir", "nowhere"], "data_dir='nowhere' is not a folder"),
])  # fmt: skip
def test_bad_input(people, capsys, monkeypatch, arguments, message):
    error = refusal(monkeypatch, capsys, people, ["sweep", *arguments])
    assert message in error[-1]
    assert len(error) == 1
    assert [p.name for p in people.iterdir()] == ["people.csv"]


@pytest.mark.slow
def test_plot_names_the_attributes(people):
    run("sweep", "--dataset", "people.csv", *OPTIONS, "--quiet", "--no-plot", cwd=people)
    done = run("plot", "results.h5", "--attribute", "town", cwd=people, code=2)
    assert "no attribute 'town' in the results; attributes: sex, age, city, pay" in done.stderr


@pytest.mark.slow
def test_paper_dry_run_names_all_ten(tmp_path):
    done = run("paper", "--quick", "--dry-run", cwd=tmp_path)
    for name in gpu_rsfd.available():
        assert name in done.stdout
    assert "6 protocols x 6 epsilons x 10 repetitions: 3,600 cells" in done.stdout
    assert list(tmp_path.iterdir()) == []
