"""Figures that can be read: any number of values and protocols, any labels, nothing to draw; and no warning."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd.planning import Look
from gpu_rsfd.protocols import REGISTRY
from gpu_rsfd.results.result import Results
from gpu_rsfd.show import panels, plots
from gpu_rsfd.show.charts import palette, template
from gpu_rsfd.show.panels import lettered, log_ticks
from gpu_rsfd.show.rows import How


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # such as a glyph that is missing, a scale that cannot be
        yield


def result_of(k, labels=None, names=None, repetitions=3, protocols=("rsfd-grr", "smp-adp")):
    codes = np.random.Generator(np.random.Philox(2)).integers(0, k, (400, 2))
    data = gpu_rsfd.Dataset(codes, (k, k), names=names, labels=None if labels is None else [labels, labels])
    return gpu_rsfd.simulate(data, epsilons=1.0, protocols=protocols, repetitions=repetitions, workers=1)


def drawn(figure, path):
    plots.save_figure(figure, path)
    return figure.axes[0]


def assert_room(axis):
    """Labels of ticks don't touch: turned ones have their height between them, others their width."""
    axis.figure.draw_without_rendering()
    labels = axis.get_xticklabels()
    places = axis.get_xaxis_transform().transform([(place, 0) for place in axis.get_xticks()])[:, 0]
    needed = labels[0].get_fontsize() / 72 * axis.figure.dpi
    if labels[0].get_rotation() == 0:
        needed = max(label.get_window_extent().width for label in labels)
    assert np.diff(places).min() > needed


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 20, 21, 41, 701])
def test_labels_are_thinned_and_numbers_are_said_to_be_numbers(k, tmp_path):
    axis = drawn(Results({"a": result_of(k)}).plot(attribute="A1"), tmp_path / "f.png")
    texts = [tick.get_text() for tick in axis.get_xticklabels()]
    assert 2 <= len(texts) <= 100
    assert_room(axis)
    assert axis.get_xlabel() == f"A1 (number of the value, 0 … {k - 1})"
    step = int(texts[1])
    assert texts == [str(v) for v in range(0, k, step)]
    assert axis.get_xticks().tolist() == list(range(0, k, step))


@pytest.mark.slow
def test_every_so_manyth_label_is_said(tmp_path):
    labels = [f"a rather long name, number {v}" for v in range(701)]
    axis = drawn(Results({"a": result_of(701, labels)}).plot(attribute="A1"), tmp_path / "f.png")
    texts = [tick.get_text() for tick in axis.get_xticklabels()]
    assert axis.get_xlabel() == "A1 (701 values, every 10th named)"
    assert len(texts) == 71
    assert all(len(text) <= 20 and "…" in text for text in texts)
    assert texts[-1].endswith("er 700")


def test_labels_have_room_in_a_narrow_figure():
    results = Results({"a": result_of(41, [f"country {v}" for v in range(41)])})
    figure = plots.figure_of(results, How(), "auto", panels.Paper(width=3.3), "A1")
    figure.draw_without_rendering()
    (axis,) = figure.axes
    assert_room(axis)
    assert axis.get_xlabel() == "A1 (41 values, every 5th named)"


@pytest.mark.slow
@pytest.mark.parametrize("k", [5, 41, 701])
def test_the_truth_is_on_top(k):
    result = result_of(k)
    (axis,) = Results({"a": result}).plot(attribute="A1").axes
    (outline,) = [patch for patch in axis.patches if patch.get_label() == "truth"]
    assert not outline.get_fill()
    assert np.array_equal(outline.get_data().values, result.frequencies[:k])
    others = [line.get_zorder() for line in axis.lines] + [c.get_zorder() for c in axis.collections]
    assert outline.get_zorder() > max(others)


@pytest.mark.parametrize("k,repetitions,text", [
    (4, 3, "error bars: 95 % prediction intervals of one collection"),
    (4, 1, "a single repetition"),
])  # fmt: skip
def test_the_legend_says_what_error_bars_are(k, repetitions, text):
    figure = Results({"a": result_of(k, repetitions=repetitions)}).plot(attribute="A1")
    title = figure.legends[0].get_title().get_text().replace("\n", " ")
    assert title == f"{text}; guarantee: paper (unequal for Spl, Smp and RS+FD)"
    assert [t.get_text() for t in figure.legends[0].get_texts()].count("truth") == 1


def test_error_bars_of_the_metric_are_named():
    results = Results({"a": result_of(4)})
    title = results.plot("none").legends[0].get_title().get_text()
    assert title.replace("\n", " ") == (
        "error bars: one standard error; guarantee: paper (unequal for Spl, Smp and RS+FD); thin lines: closed form"
    )


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_labels_in_any_script(tmp_path, suffix):
    labels = ["上海市", "𐍈𐌰", "$5 to $10", "tab\there", "naïve", "Ω≈ç", "\\frac", "{a}_b^c", "ا", "x" * 500]
    names = ["城市", "b"]
    result = result_of(len(labels), labels, names)
    drawn(Results({"データ": result}).plot(attribute="城市"), tmp_path / f"f{suffix}")
    drawn(Results({"データ": result}).plot("none"), tmp_path / f"g{suffix}")


def test_text_without_a_font_is_escaped(monkeypatch):
    monkeypatch.setattr(panels, "_without", lambda path, characters: frozenset(c for c in characters if c > "ÿ"))
    panels._fonts_for.cache_clear()
    try:
        assert lettered(["上海", "a\nb", "é"], 20)[0] == ["\\u4e0a\\u6d77", "a\\nb", "é"]
        cut, _ = lettered(["上海市上海市"], 20)
        assert cut == ["\\u4e0a\\u6d77…\\u5e02"]  # whole codes only
    finally:
        panels._fonts_for.cache_clear()


def test_a_font_that_has_the_characters_is_taken(tmp_path):
    """U+1D81 is not in Matplotlib's default font, but in the STIX fonts that come with it."""
    (text,), families = lettered(["a\u1d81b"], 20)
    assert text == "a\u1d81b"
    assert len(families) == 2
    assert lettered(["abc"], 20) == (["abc"], families[:1])
    figure = Results({"a": result_of(2, ["\u1d81", "b"])}).plot(attribute="A1")
    assert [tick.get_text() for tick in drawn(figure, tmp_path / "f.png").get_xticklabels()] == ["\u1d81", "b"]


@pytest.mark.parametrize("text,most,cut", [
    ("abcdefghij", 10, "abcdefghij"),
    ("abcdefghijk", 10, "abcdef…ijk"),
    ("$$$$$$", 4, "\\$\\$…\\$"),
])  # fmt: skip
def test_long_text_is_cut(text, most, cut):
    assert lettered([text], most)[0] == [cut]


def test_every_protocol_has_a_style_and_what_coincides_is_hollow():
    mine = replace(REGISTRY["smp-grr"], name="mine", colour="#123456", marker="H")
    odd = replace(REGISTRY["smp-oue"], name="odd", label="Odd", colour="no colour", marker="no marker")
    protocols = [*REGISTRY, mine, odd]
    data = gpu_rsfd.SyntheticDataset(50, (3, 4))
    result = gpu_rsfd.simulate(data, epsilons=[1.0], protocols=protocols, repetitions=1, workers=1)
    styles = dict(zip(result.protocols, palette(result.plan.looks), strict=True))
    assert (styles["mine"].marker, styles["mine"].colour) == ("H", "#123456")
    assert len(set(styles.values())) == len(protocols)
    curves = zip(result.protocols, result.plot().axes[0].containers, strict=True)
    hollow = {name for name, curve in curves if curve.lines[0].get_markerfacecolor() == "none"}
    assert {"mine", "odd", "rsfd-adp"} <= hollow
    assert not {"rsfd-grr", "rsfd-oue-z"} & hollow


def looks_of(names):
    return tuple(Look.of(REGISTRY[name]) for name in names)


def test_up_to_16_protocols_differ_in_colour_and_in_grey():
    alike = {m: kind for kind in ("ophH8", "Dd", "Xx", "P+") for m in kind}
    draw, names = np.random.Generator(np.random.Philox(1)), list(REGISTRY)
    for _ in range(200):
        styles = palette(looks_of(draw.choice(names, draw.integers(2, 17), replace=False)))
        assert len({style.colour for style in styles}) == len(styles)
        assert len({(alike.get(style.marker, style.marker), style.dash) for style in styles}) == len(styles)
    of_one_family = palette(looks_of([name for name in names if name.startswith("rs")]))
    assert len(set(of_one_family)) == len(of_one_family) > 16
    assert len({style.colour for style in of_one_family}) == 16
    paper = palette(looks_of(names[:6]))
    assert palette(looks_of([*names[:6], "smp-hr", "spl-oue"]))[:6] == paper  # the same in every figure
    assert palette(looks_of(names[5::-1])) == paper[::-1]
    assert palette(looks_of(["smp-adp"])) == paper[5:]


def oklab(colours):
    """Where colours are in a space in which distances are what eyes see."""
    of_cones = [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]
    of_light = [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]
    return np.cbrt(colours @ np.transpose(of_cones)) @ np.transpose(of_light)


def test_colours_stand_out_from_white_and_from_each_other():
    colours = template("palette")["colours"]
    shares = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in colours]) / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    assert (1.05 / (linear @ [0.2126, 0.7152, 0.0722] + 0.05)).min() >= 3  # as WCAG asks of graphics
    green_blind = np.clip(
        linear @ np.transpose([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]), 0, 1
    )
    for seen, least in ((linear, 0.095), (green_blind, 0.06)):
        places = oklab(seen)
        apart = np.linalg.norm(places[:, None] - places, axis=-1) + np.eye(16)
        assert apart.min() >= least


@pytest.mark.parametrize(("values", "ticks"), [
    ([5.0, 12.0], ["5", "7.5", "10", "12.5"]), ([6.2, 8.3], ["6.4", "7.2", "8", "8.8"]), ([2.0, 300.0], ["10", "100"]),
    ([2e-4, 3e-3], ["2·10^-4", "5·10^-4", "10^-3", "2·10^-3"]),
    ([3.11e-4, 3.22e-4], ["3·10^-4", "3.15·10^-4", "3.3·10^-4", "3.45·10^-4"]),
])  # fmt: skip
def test_ticks_of_a_logarithmic_axis(values, ticks):
    from matplotlib.figure import Figure

    axis = Figure().subplots()
    assert log_ticks(axis, values)
    low, high = axis.get_ylim()
    plain = str.maketrans("", "", "{}$")
    shown = [
        label.get_text().replace("\\mathdefault", "").replace("\\cdot", "·").translate(plain)
        for at, label in zip(axis.get_yticks(), axis.get_yticklabels(), strict=True)
        if low <= at <= high
    ]
    assert shown == ticks


def test_frequencies_in_one_column_of_a_paper(tmp_path, monkeypatch):
    """The legend is below, and no label is longer than its panel."""
    monkeypatch.chdir(tmp_path)
    data = gpu_rsfd.SyntheticDataset(900, (3, 4), name="mine")
    gpu_rsfd.sweep(data, epsilons=[0.5, 1, 2], repetitions=2, output="r.h5")
    figure = plots.figure_of(gpu_rsfd.open_results("r.h5"), How(), paper=panels.Paper(width=3.3), attribute="A1")
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    for axis in figure.axes:
        assert box.y1 <= axis.get_window_extent().y0
        label, panel = axis.yaxis.label.get_window_extent(), axis.get_window_extent()
        assert label.height <= 1.1 * panel.height


@pytest.mark.parametrize("epsilon,tick", [(1.0, "1"), (np.log(2), "ln 2")])
def test_the_tick_of_a_single_epsilon(epsilon, tick):
    result = gpu_rsfd.simulate(gpu_rsfd.SyntheticDataset(90, (3, 4)), epsilons=epsilon, repetitions=2)
    (axis,) = result.plot().axes
    assert [label.get_text() for label in axis.get_xticklabels()] == [tick]


@pytest.mark.slow
def test_ticks_in_a_font_without_raised_digits():
    """As papers have them: the usual fonts of journals have no superscript minus."""
    from matplotlib import rc_context

    with rc_context({"font.family": "STIXGeneral", "mathtext.fontset": "stix"}):
        Results({"r": result_of(3, protocols=["smp-*"])}).plot().draw_without_rendering()  # a warning is an error here


def test_samples_in_the_legend_show_whole_dashes():
    result = result_of(3, protocols=["smp-*"])
    (legend,) = Results({"r": result}).plot().legends
    for line in legend.get_lines():
        period = sum(line._dash_pattern[1] or [0])  # in points, scaled by the width of the line
        assert legend.handlelength * legend.prop.get_size() - line.get_markersize() >= 1.7 * period


@pytest.mark.slow
def test_nothing_to_draw(tmp_path):
    """Fewer users than attributes, balanced: Smp never has an estimate of all of them."""
    made, described = {}, []
    for n in (2, 3):
        data = gpu_rsfd.SyntheticDataset(n, (3,) * 4, name=f"uniform-n{n}-d4")
        described.append(data.describe())
        made[data.name] = gpu_rsfd.simulate(
            data, epsilons=[1.0, 2.0], protocols="smp-grr", repetitions=2, assignment="balanced", workers=1
        )
    results = Results(made, spec={"datasets": described})
    for postprocess in ("none", "clip", "clip-normalize"):
        for x in ("epsilon", "users"):
            axis = drawn(results.plot(postprocess, x), tmp_path / "f.png")
            assert [t.get_text() for t in axis.texts] == ["no estimates"]
    drawn(results.plot(attribute="A4"), tmp_path / "g.png")


def test_one_repetition_with_an_estimate_has_no_error_bar(tmp_path):
    data = gpu_rsfd.SyntheticDataset(6, (3, 3, 3))
    result = gpu_rsfd.simulate(data, epsilons=1.0, protocols=["rsfd-grr", "smp-grr"], repetitions=2, seed=4, workers=1)
    drawn(Results({"a": result}).plot("none"), tmp_path / "f.png")


def test_rough_closed_forms_are_not_drawn():
    data = gpu_rsfd.SyntheticDataset(60, (3, 3, 3))
    result = gpu_rsfd.simulate(data, epsilons=[1.0, 2.0], protocols="smp-grr", repetitions=3, workers=1)
    for postprocess, missing in (("none", False), ("clip", True)):
        (axis,) = Results({"a": result}).plot(postprocess).axes
        (thin,) = [line for line in axis.lines if line.get_linewidth() < 1 and len(line.get_xdata()) == 2]
        assert np.isnan(thin.get_ydata()).all() == missing
