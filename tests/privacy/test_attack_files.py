"""Attacks in files: the same numbers after any interruption, one clear line for what is not such a file."""

import h5py
import numpy as np
import pytest
from runs import small_blocks

import gpu_rsfd
from gpu_rsfd.errors import InputError
from gpu_rsfd.spec import Spec

ONE = gpu_rsfd.SyntheticDataset(200, (3, 4), seed=1, name="one")
TWO = gpu_rsfd.SyntheticDataset(150, (2, 2, 5), "zipf:1.2", seed=2, name="two")
SPEC = Spec.of(
    protocols=["rsfd-oue-z", "rsrfd-grr", "spl-adp"],
    epsilons=[1.0, 2.0],
    repetitions=6,
    seed=3,
    prior="true",
    guarantee="attribute",
)


def run(path, spec=SPEC, knowledge="true", **options):
    return gpu_rsfd.attack([ONE, TWO], spec, knowledge=knowledge, output=path, workers=1, **options)


def same(a, b):
    return all(
        np.array_equal(a[name][array], b[name][array], equal_nan=True) and a[name].columns == b[name].columns
        for name in ("one", "two")
        for array in ("sampled_success", "value_success")
    )


def test_a_file_has_what_the_attack_gave(tmp_path):
    made = run(tmp_path / "a.h5")
    read = gpu_rsfd.open_results(tmp_path / "a.h5")
    assert made.complete
    assert read.complete
    assert made.computed == 12
    assert same(made, read)
    assert read["two"].spec["knowledge"] == "true"
    assert read["two"].names == TWO.names
    assert read["two"].columns["sampled_success"].baseline == pytest.approx(1 / 3)
    cells = {"epsilons": SPEC.epsilons, "protocols": SPEC.protocols, "repetitions": 6, "seed": 3}
    alone = gpu_rsfd.attack(TWO, guarantee="attribute", prior="true", workers=1, **cells)
    assert np.array_equal(alone.value_success, read["two"].value_success)
    again = run(tmp_path / "a.h5")
    assert again.computed == 0
    assert same(made, again)


def test_an_interrupted_attack_goes_on(tmp_path, monkeypatch):
    whole = run(tmp_path / "whole.h5")
    measure, left = gpu_rsfd.measure.Inference.measure, [5]

    def stopped(self, view):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return measure(self, view)

    with monkeypatch.context() as patch, small_blocks():
        patch.setattr(gpu_rsfd.measure.Inference, "measure", stopped)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "cut.h5", save_every=0)
    partial = gpu_rsfd.open_results(tmp_path / "cut.h5")
    assert not partial.complete
    assert 0 < len(partial["one"].repetitions) < 6
    cut = run(tmp_path / "cut.h5")
    assert 0 < cut.computed < 12
    assert same(whole, cut)


def test_the_first_repetition_is_kept(tmp_path, monkeypatch):
    """How long one takes is not known before: a block of many could take minutes, all of them lost."""
    measure, seen = gpu_rsfd.measure.Rounds.measure, []

    def stopped(self, view):
        if seen:
            raise KeyboardInterrupt
        seen.append(len(view.repetitions))
        return measure(self, view)

    asked = {"rounds": 3, "protocols": "smp-l-grr", "repetitions": 50, "workers": 1, "output": tmp_path / "cut.h5"}
    with monkeypatch.context() as patch:
        patch.setattr(gpu_rsfd.measure.Rounds, "measure", stopped)
        with pytest.raises(KeyboardInterrupt):
            gpu_rsfd.rounds(ONE, **asked)
    assert seen == [1]
    assert gpu_rsfd.rounds(ONE, **asked).computed == 49


def test_another_attack_is_not_mixed_in(tmp_path):
    run(tmp_path / "a.h5")
    other = Spec.of(SPEC, guarantee="user")
    with pytest.raises(InputError, match=r"holds the results of another (.|\n)*guarantee: attribute in the file"):
        run(tmp_path / "a.h5", other)
    with pytest.raises(InputError, match="knowledge: true in the file"):
        run(tmp_path / "a.h5", knowledge="estimated")
    assert run(tmp_path / "a.h5", other, overwrite=True).spec["guarantee"] == "user"


def test_another_realised_prior_is_not_mixed_in(tmp_path, monkeypatch):
    spec = Spec.of(protocols="rsrfd-grr", epsilons=1.0, repetitions=2, prior="dirichlet:1")
    made = run(tmp_path / "a.h5", spec)
    assert gpu_rsfd.open_results(tmp_path / "a.h5")["two"].plan == made["two"].plan
    monkeypatch.setattr("gpu_rsfd.protocols.priors.PRIORS", 99)
    with pytest.raises(InputError):
        run(tmp_path / "a.h5", spec)


def test_sweeps_and_attacks_are_not_mixed(tmp_path):
    run(tmp_path / "a.h5")
    cells = {"epsilons": 1.0, "protocols": "rsfd-grr", "repetitions": 2, "workers": 1}
    gpu_rsfd.sweep(ONE, output=tmp_path / "s.h5", **cells)
    assert gpu_rsfd.open_results(tmp_path / "a.h5").measurement == "inference"
    assert gpu_rsfd.open_results(tmp_path / "s.h5").measurement == "frequencies"
    with pytest.raises(InputError, match="give another"):
        gpu_rsfd.sweep(ONE, output=tmp_path / "a.h5", **cells)
    with pytest.raises(InputError, match="give another"):
        run(tmp_path / "s.h5")


def test_an_attack_grows_in_every_direction(tmp_path):
    """As a sweep does: protocols, epsilons, data sets, repetitions; and in parts."""
    small = {"protocols": "rsrfd-grr", "epsilons": 2.0, "repetitions": 2}
    gpu_rsfd.attack(ONE, gpu_rsfd.Spec.of(SPEC, **small), output=tmp_path / "a.h5", workers=1)
    assert run(tmp_path / "a.h5").computed == 12  # 2 with the other cells, 4 with all; 6 of the other data set
    whole = run(tmp_path / "whole.h5")
    assert same(gpu_rsfd.open_results(tmp_path / "a.h5"), whole)
    for number in (2, 1):
        run(tmp_path / "parts.h5", part=(number, 2))
    assert same(gpu_rsfd.merge(tmp_path / "parts.h5"), whole)


@pytest.mark.parametrize("array", ["value_success", "sampled_success"])
def test_damage_is_one_clear_line(tmp_path, array):
    run(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["two"][array][...] = np.full((3, 2, 6), 7.0)
    with pytest.raises(InputError, match="is damaged") as caught:
        gpu_rsfd.open_results(tmp_path / "a.h5")
    assert "\n" not in str(caught.value)


def test_xarray_reads_it(tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    made = run(tmp_path / "a.h5")
    with xarray.open_dataset(tmp_path / "a.h5", group="two", engine="h5netcdf") as read:
        assert read["value_success"].dims == ("protocol", "epsilon", "repetition")
        assert np.array_equal(read["value_success"].values, made["two"].value_success)
