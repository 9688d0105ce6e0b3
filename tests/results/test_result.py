"""A result says what it is of, can't be changed, and names what there is."""

import numpy as np
import pandas
import pytest
from command import call, refusal

import gpu_rsfd

OPTIONS = {"protocols": "smp-grr", "epsilons": 1.0, "repetitions": 2}
ONE = gpu_rsfd.SyntheticDataset(200, (3, 3), name="one")
SWEEP = ["sweep", "--protocol", "smp-grr", "--repetitions", "2", "--no-plot", "--quiet", "--workers", "1"]


@pytest.fixture(scope="module")
def result():
    return gpu_rsfd.simulate(ONE, **OPTIONS)


@pytest.mark.slow
def test_it_knows_its_data_set(result, tmp_path):
    size = {"dataset": "one", "users": 200, "d": 2, "k": 3}
    results = gpu_rsfd.sweep(
        [ONE, gpu_rsfd.SyntheticDataset(90, (2, 4), name="two")], output=tmp_path / "r.h5", **OPTIONS
    )
    for one in (result, results["one"], gpu_rsfd.run(gpu_rsfd.measure.Frequencies(), ONE, **OPTIONS)["one"]):
        assert one.title == "one"
        for per in ("cell", "repetition", "attribute", "value"):
            row = one.to_dataframe(per).iloc[0]
            assert {key: row[key] for key in size} == size
            assert row.label == "Smp[GRR]"
        assert one.to_xarray().attrs == size
        assert one.to_xarray().protocol_label.values.tolist() == ["Smp[GRR]"]
    assert results["two"].size["k"] is None
    assert results["two"].to_xarray().attrs == {"dataset": "two", "users": 90, "d": 2}


def test_it_can_not_be_changed(result, tmp_path):
    gpu_rsfd.sweep(ONE, output=tmp_path / "r.h5", **OPTIONS)
    for one in (result, gpu_rsfd.open_results(tmp_path / "r.h5")["one"]):
        for array in (one.counts, one.reporters, one.frequencies, one.mse(), one["mse"]):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
    copy = result.counts.copy()
    copy[...] = 0
    assert result.counts.any()


def test_a_data_set_that_is_not_there_is_named(result):
    results = gpu_rsfd.Results({"one": result})
    for wrong in (lambda: results["syn2"], lambda: results.only(["syn2"])):
        with pytest.raises(gpu_rsfd.InputError, match="no data set 'syn2' in the results; data sets: one"):
            wrong()
    assert results.get("syn2") is None


def test_a_frame_is_a_data_set_wherever_a_name_is(tmp_path):
    frame = pandas.DataFrame({"sex": list("fm" * 30), "smokes": list("yynnnn" * 10)})
    swept = gpu_rsfd.sweep(frame, output=tmp_path / "r.h5", **OPTIONS)
    (one,) = swept.values()
    assert np.array_equal(one.counts, gpu_rsfd.simulate(frame, **OPTIONS).counts)


@pytest.mark.parametrize("text,found", [
    ("0.5:2:0.5", [0.5, 1.0, 1.5, 2.0]), ("0.1:0.5:0.1,ln2", [0.1, 0.2, 0.3, 0.4, 0.5, np.log(2)]), ("1:2:5", [1.0]),
])  # fmt: skip
def test_a_range_of_epsilons(text, found, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, *SWEEP, "--users", "50", "--domain", "2", "--eps", text, "--output", "r.h5") == 0
    (one,) = gpu_rsfd.open_results("r.h5").values()
    assert list(one.epsilons) == found
    assert list(gpu_rsfd.simulate(ONE, **{**OPTIONS, "epsilons": [text]}).epsilons) == found


@pytest.mark.parametrize("text", ["1:2", "2:1:0.5", "1:2:3:4", "1:1e9:1", "1:x:2"])
def test_no_range(text, monkeypatch, capsys, tmp_path):
    (line,) = refusal(monkeypatch, capsys, tmp_path, [*SWEEP, f"--eps={text}"])
    assert "epsilon=" in line
    assert "0.5:5:0.5" in line or "must be a number" in line


def test_named_and_synthetic_data_in_one_sweep(monkeypatch, tmp_path):
    """The command that is said to make the file makes it."""
    monkeypatch.chdir(tmp_path)
    data = ["--dataset", "nursery", "--users", "50,60", "--domain", "2,3", "--sampler", "counts", "--epsilon", "1"]
    assert call(monkeypatch, *SWEEP, *data, "--output", "r.h5") == 0
    results = gpu_rsfd.open_results("r.h5")
    assert list(results) == ["nursery", "uniform-n50-d2", "uniform-n60-d2"]
    words = gpu_rsfd.command.command_of(results.spec)
    assert "--dataset nursery --users 50,60 --domain 2,3" in words
    other = {**results.spec, "datasets": results.spec["datasets"][::-1]}
    assert gpu_rsfd.command.command_of(other) is None


@pytest.mark.slow
@pytest.mark.parametrize("words,said", [
    (["sweep", "--tradeoff"], "no such option: --tradeoff; --tradeoff is an option of gpu-rsfd plot"),
    (["sweep", "--legend", "none"], "no such option: --legend; --legend is an option of gpu-rsfd plot"),
    (["doctor", "--eps", "1"], "--epsilon is an option of gpu-rsfd sweep"),
    (["show", "--targe"], "did you mean"),
])  # fmt: skip
def test_an_option_of_another_command_is_named_with_it(words, said, monkeypatch, capsys, tmp_path):
    (line,) = refusal(monkeypatch, capsys, tmp_path, words)
    assert said in line
