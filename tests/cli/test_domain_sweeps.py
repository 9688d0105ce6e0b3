"""A data set for each number of users, attributes and values: names, figures, the page and the command agree."""

import numpy as np
import pytest
from command import call, refusal

import gpu_rsfd
from gpu_rsfd.command import command_of
from gpu_rsfd.show import plots

MADE = ["--users", "400", "--attributes", "2,3,4", "--values", "3,6", "--sampler", "counts", "--epsilon", "1"]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("grid") / "r.h5"
    words = ["--protocol", "smp-grr,rsfd-grr", "--repetitions", "3", "--no-plot", "--quiet", "--workers", "1"]
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert call(monkeypatch, "sweep", *MADE, *words, "--output", str(path)) == 0
    return gpu_rsfd.open_results(path)


def test_a_data_set_for_each_pair(results):
    shapes = {name: (r.n, tuple(r.domain)) for name, r in results.items()}
    assert shapes == {f"uniform-n400-d{d}-k{k}": (400, (k,) * d) for d in (2, 3, 4) for k in (3, 6)}
    assert "--users 400 --attributes 2,3,4 --values 3,6 --distribution uniform" in command_of(results.spec)
    missing = {**results.spec, "datasets": results.spec["datasets"][1:]}  # no grid any more
    assert command_of(missing) is None
    mixed = {**results.spec, "datasets": [results.spec["datasets"][0], {**results.spec["datasets"][1], "name": "own"}]}
    assert command_of(mixed) is None


@pytest.mark.parametrize("x,title,at,sets", [
    ("d", "ε = 1, n = 400, k = 3", [2, 3, 4], ["d2-k3", "d3-k3", "d4-k3"]),
    ("k", "ε = 1, n = 400, d = 2", [3, 6], ["d2-k3", "d2-k6"]),
    ("auto", "ε = 1, n = 400, k = 3", [2, 3, 4], ["d2-k3", "d3-k3", "d4-k3"]),
])  # fmt: skip
def test_figures_against_the_domain(results, x, title, at, sets):
    axes = results.plot("simplex", x, metric="topk:2").axes
    assert len(axes) == (3 if x == "k" else 2)
    assert axes[0].get_title() == title
    assert axes[0].get_xlabel() == ("values k" if x == "k" else "attributes d")
    assert axes[0].get_ylabel() == "topk:2$_{avg}$ (simplex)"
    assert axes[0].get_yscale() == "linear"
    for p, container in enumerate(axes[0].containers):
        line = container.lines[0]
        assert line.get_xdata().tolist() == at
        means = [results[f"uniform-n400-{name}"].error("topk:2", "simplex")[p, 0].mean() for name in sets]
        np.testing.assert_allclose(line.get_ydata(), means)
    assert [t.get_text() for t in axes[0].get_xticklabels()] == list(map(str, at))
    assert axes[0].get_xscale() == "log"


def test_what_does_not_vary_is_no_axis(results):
    with pytest.raises(gpu_rsfd.InputError, match=r"x=n needs synthetic data sets, made by size, .* users n"):
        results.plot(x="n")
    one = results.only(["uniform-n400-d2-k3"])
    assert plots.varying_in(plots.sizes_of(one)) == []
    assert len(one.plot().axes) == 1  # against epsilon


def test_the_page_has_the_same_axes(results):
    pytest.importorskip("vl_convert")
    from gpu_rsfd.show.page import document

    page = document(results.only(["uniform-n400-d2-k3", "uniform-n400-d3-k6"]), "t")
    assert page["axes"] == {"d": "attributes d", "k": "values k"}
    assert page["datasets"][1]["size"] == {"n": 400, "d": 3, "k": 6}


@pytest.mark.parametrize("words,message", [
    (["--users", "9", "--attributes", "2"], "needs --users, --attributes and --values; --values is missing"),
    (["--attributes", "2", "--values", "2"], "needs --users, --attributes and --values; --users is missing"),
    (["--users", "9", "--domain", "2", "--values", "2"], "--domain and --attributes exclude each other"),
    (["--users", "9", "--attributes", "0", "--values", "2"], "attributes=0 must be a whole number from 1 to 65,535"),
    (["--users", "9", "--attributes", "1", "--values", "2,x"], "values=x must be a whole number"),
    (["--users", "9", "--attributes", "1,1", "--values", "2"], "data set 'uniform-n9-d1-k2' is given twice"),
    (["--dataset", "syn1", "--values", "2"], "--attributes and --values; --users is missing"),
])  # fmt: skip
def test_bad_input(words, message, monkeypatch, capsys, tmp_path):
    (line,) = refusal(monkeypatch, capsys, tmp_path, ["sweep", *words])
    assert message in line
    assert list(tmp_path.iterdir()) == []
