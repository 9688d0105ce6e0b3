"""Attacks in files: the same numbers after any interruption, one clear line for what is not such a file."""

import h5py
import numpy as np
import pytest

import gpu_rsfd
from gpu_rsfd.errors import InputError
from gpu_rsfd.privacy.attacking import Attacker
from gpu_rsfd.privacy.files import attack_all, is_attack
from gpu_rsfd.spec import Spec

ONE = gpu_rsfd.SyntheticDataset(200, (3, 4), seed=1, name="one")
TWO = gpu_rsfd.SyntheticDataset(150, (2, 2, 5), "zipf:1.2", seed=2, name="two")
SPEC = Spec.of(["rsfd-oue-z", "rsrfd-grr", "spl-adp"], [1.0, 2.0], 6, 3, prior="true", guarantee="attribute")


def run(path, spec=SPEC, knowledge="true", **options):
    with Attacker(1, knowledge) as attacker:
        return attack_all([ONE, TWO], spec, attacker, path, **options)


def same(a, b):
    return all(
        np.array_equal(getattr(a[name], field), getattr(b[name], field), equal_nan=True)
        for name in ("one", "two")
        for field in ("sampled", "value", "sampled_baseline", "value_baseline")
    )


def test_a_file_has_what_the_attack_gave(tmp_path):
    made = run(tmp_path / "a.h5")
    read = gpu_rsfd.open_attacks(tmp_path / "a.h5")
    assert made.complete
    assert read.complete
    assert made.computed == 12
    assert same(made, read)
    assert read["two"].spec == SPEC
    assert read["two"].knowledge == "true"
    assert read["two"].names == TWO.names
    alone = gpu_rsfd.attack(TWO, SPEC.epsilons, SPEC.protocols, 6, 3, "uniform", "attribute", "true", workers=1)
    assert np.array_equal(alone.value, read["two"].value)
    again = run(tmp_path / "a.h5")
    assert again.computed == 0
    assert same(made, again)


def test_an_interrupted_attack_goes_on(tmp_path):
    whole = run(tmp_path / "whole.h5")

    class StopError(Exception):
        pass

    class Reporter:
        def __init__(self, most):
            self.most = most

        def begin(self, positions, done):
            self.began = positions, done

        def advance(self, positions):
            self.most -= 1
            if self.most < 0:
                raise StopError

        def dataset(self, name): ...
        def say(self, line): ...
        def end(self): ...

    for steps in (2, 6):
        with pytest.raises(StopError):
            run(tmp_path / "cut.h5", save_every=0.0, reporter=Reporter(steps))
    partial = gpu_rsfd.open_attacks(tmp_path / "cut.h5")
    assert not partial.complete
    assert len(partial["one"].repetitions) == 6
    last = Reporter(100)
    cut = run(tmp_path / "cut.h5", reporter=last)
    assert last.began[1] > 0
    assert cut.complete
    assert same(whole, cut)


def test_realised_priors_are_stored(tmp_path):
    run(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["two"]["prior"][()].max() == 2**32
        assert file["two"]["value"].dims[0].keys() == ["protocol"]


def test_another_attack_is_not_mixed_in(tmp_path):
    run(tmp_path / "a.h5")
    other = Spec.of(SPEC.protocols, SPEC.epsilons, 6, 3, prior="true", guarantee="user")
    with pytest.raises(InputError, match=r"holds another attack(.|\n)*guarantee: the file has attribute"):
        run(tmp_path / "a.h5", other)
    with pytest.raises(InputError, match="knowledge: the file has true"):
        run(tmp_path / "a.h5", knowledge="estimated")
    assert run(tmp_path / "a.h5", other, overwrite=True).spec["guarantee"] == "user"


def test_another_realised_prior_is_not_mixed_in(tmp_path, monkeypatch):
    spec = Spec.of("rsrfd-grr", 1.0, 2, prior="dirichlet:1")
    made = run(tmp_path / "a.h5", spec)
    assert gpu_rsfd.open_attacks(tmp_path / "a.h5")["two"].terms == made["two"].terms
    monkeypatch.setattr("gpu_rsfd.protocols.priors._STREAM", 99)
    with pytest.raises(InputError, match="has another realised prior for one"):
        run(tmp_path / "a.h5", spec)


def test_sweeps_and_attacks_are_told_apart(tmp_path):
    run(tmp_path / "a.h5")
    gpu_rsfd.sweep(ONE, 1.0, "rsfd-grr", 2, output=tmp_path / "s.h5", workers=1)
    assert is_attack(tmp_path / "a.h5")
    assert not is_attack(tmp_path / "s.h5")
    with pytest.raises(InputError, match="holds an attack, not a sweep"):
        gpu_rsfd.open_results(tmp_path / "a.h5")
    with pytest.raises(InputError, match="holds a sweep, not an attack"):
        gpu_rsfd.open_attacks(tmp_path / "s.h5")
    with pytest.raises(InputError, match="holds an attack, not a sweep"):
        gpu_rsfd.sweep(ONE, 1.0, "rsfd-grr", 2, output=tmp_path / "a.h5", workers=1)


@pytest.mark.parametrize("field", ["value", "sampled", "value_baseline", "spec", "users", "attribute", "device"])
def test_damage_is_one_clear_line(tmp_path, field):
    run(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        for holder in (file.attrs, file["two"].attrs, file["two"]):
            if field in holder and field != "spec":
                del holder[field]
        if field == "spec":
            file.attrs["spec"] = file.attrs["spec"].replace('"true"', '"all"')
        if field in ("value", "sampled"):
            file["two"][field] = np.full((3, 2, 6), 7.0)
    with pytest.raises(InputError, match="is damaged") as caught:
        gpu_rsfd.open_attacks(tmp_path / "a.h5")
    assert "\n" not in str(caught.value)


def test_xarray_reads_it(tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    made = run(tmp_path / "a.h5")
    with xarray.open_dataset(tmp_path / "a.h5", group="two", engine="h5netcdf") as read:
        assert read["value"].dims == ("protocol", "epsilon", "repetition")
        assert np.array_equal(read["value"].values, made["two"].value)
