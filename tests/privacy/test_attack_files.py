"""Attacks in files: the same numbers after any interruption, one clear line for what is not such a file."""

from dataclasses import dataclass
from typing import ClassVar

import h5py
import numpy as np
import pytest
from command import call

import gpu_rsfd
from gpu_rsfd.command import command_of
from gpu_rsfd.errors import InputError
from gpu_rsfd.measure import MEASUREMENTS, Inference
from gpu_rsfd.measure.inference import Attacker
from gpu_rsfd.running.collect import collect
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
        np.array_equal(getattr(a[name], field), getattr(b[name], field), equal_nan=True)
        for name in ("one", "two")
        for field in ("sampled_success", "value_success", "sampled_baseline", "value_baseline")
    )


def test_a_file_has_what_the_attack_gave(tmp_path):
    made = run(tmp_path / "a.h5")
    read = gpu_rsfd.open_results(tmp_path / "a.h5")
    assert made.complete
    assert read.complete
    assert made.computed == 12
    assert same(made, read)
    assert read["two"].spec == {
        **SPEC.described(),
        "measurement": "inference",
        "knowledge": "true",
        "stream_version": 1,
    }
    assert read["two"].knowledge == "true"
    assert read["two"].names == TWO.names
    alone = gpu_rsfd.attack(
        TWO,
        epsilons=SPEC.epsilons,
        protocols=SPEC.protocols,
        repetitions=6,
        seed=3,
        assignment="uniform",
        guarantee="attribute",
        prior="true",
        workers=1,
    )
    assert np.array_equal(alone.value_success, read["two"].value_success)
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
    partial = gpu_rsfd.open_results(tmp_path / "cut.h5")
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
        assert file["two"]["value_success"].dims[0].keys() == ["protocol"]


def test_another_attack_is_not_mixed_in(tmp_path):
    run(tmp_path / "a.h5")
    other = Spec.of(
        protocols=SPEC.protocols, epsilons=SPEC.epsilons, repetitions=6, seed=3, prior="true", guarantee="user"
    )
    with pytest.raises(InputError, match=r"holds another attack(.|\n)*guarantee: attribute in the file"):
        run(tmp_path / "a.h5", other)
    with pytest.raises(InputError, match="knowledge: true in the file"):
        run(tmp_path / "a.h5", knowledge="estimated")
    assert run(tmp_path / "a.h5", other, overwrite=True).spec["guarantee"] == "user"


def test_another_realised_prior_is_not_mixed_in(tmp_path, monkeypatch):
    spec = Spec.of(protocols="rsrfd-grr", epsilons=1.0, repetitions=2, prior="dirichlet:1")
    made = run(tmp_path / "a.h5", spec)
    assert gpu_rsfd.open_results(tmp_path / "a.h5")["two"].plan == made["two"].plan
    monkeypatch.setattr("gpu_rsfd.protocols.priors.PRIORS", 99)
    with pytest.raises(InputError, match=r"has another realised prior in the file .* data set one"):
        run(tmp_path / "a.h5", spec)


def test_sweeps_and_attacks_are_not_mixed(tmp_path):
    run(tmp_path / "a.h5")
    gpu_rsfd.sweep(ONE, epsilons=1.0, protocols="rsfd-grr", repetitions=2, output=tmp_path / "s.h5", workers=1)
    assert gpu_rsfd.open_results(tmp_path / "a.h5").measurement == "inference"
    assert gpu_rsfd.open_results(tmp_path / "s.h5").measurement == "frequencies"
    with pytest.raises(InputError, match="holds an attack, not a sweep; give another"):
        gpu_rsfd.sweep(ONE, epsilons=1.0, protocols="rsfd-grr", repetitions=2, output=tmp_path / "a.h5", workers=1)
    with pytest.raises(InputError, match="holds a sweep, not an attack; give another"):
        run(tmp_path / "s.h5")


@dataclass(frozen=True)
class Luck(Inference):
    """Another attack: its class, and an entry in `MEASUREMENTS`."""

    kind: ClassVar[str] = "luck"
    noun: ClassVar[str] = "guess"

    def make(self, header, data, seed, repetitions, engine, progress=None):
        for p, arrays in super().make(header, data, seed, repetitions, engine, progress):
            yield p, {name: np.full_like(array, 0.5) for name, array in arrays.items()}


def test_another_attack_is_a_class_and_an_entry(tmp_path, monkeypatch, capsys):
    """Parts, merging, extending, refusals, tables and figures follow."""
    monkeypatch.setitem(MEASUREMENTS, "luck", Luck)
    path = tmp_path / "l.h5"

    def guess(spec, part=None):
        with Attacker(workers=1) as engine:
            return collect(Luck(), [ONE], spec, path, engine, part=part)

    for part in ((1, 2), (2, 2)):
        guess(SPEC, part)
    merged = gpu_rsfd.merge(path)
    assert merged.measurement == "luck"
    longer = guess(Spec.of(SPEC, repetitions=8))
    assert longer.computed == 2
    assert (longer["one"].value_success == 0.5).all()
    with pytest.raises(InputError, match="holds a guess, not an attack; give another"):
        run(path)
    assert call(monkeypatch, "show", str(path)) == 0
    assert "share of values that are guessed" in capsys.readouterr().out
    assert call(monkeypatch, "plot", str(path)) == 0
    assert command_of(longer.spec) is None


def test_the_first_block_of_an_attack_is_small(tmp_path, monkeypatch):
    """Attacks are a hundred times slower than counts; a first block as large as that of a sweep was the whole run."""
    tasks = []

    def stopped(self, store, task, *_):
        tasks.append(task)
        raise RuntimeError("enough")

    monkeypatch.setattr("gpu_rsfd.running.collect._Collection._write", stopped)
    data = gpu_rsfd.SyntheticDataset(200, (10,) * 5, name="small")
    with pytest.raises(RuntimeError, match="enough"):
        gpu_rsfd.attack(data, SPEC, repetitions=400, output=tmp_path / "a.h5", workers=1, save_every=0.1)
    assert 1 <= tasks[0].stop - tasks[0].first <= 0.1 * 1e6 / data.n / 50


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


@pytest.mark.parametrize("field", ["value_success", "sampled_success", "spec", "users", "attribute", "device"])
def test_damage_is_one_clear_line(tmp_path, field):
    run(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        for holder in (file.attrs, file["two"].attrs, file["two"]):
            if field in holder and field != "spec":
                del holder[field]
        if field == "spec":
            file.attrs["spec"] = file.attrs["spec"].replace('"true"', '"all"')
        if field in ("value_success", "sampled_success"):
            file["two"][field] = np.full((3, 2, 6), 7.0)
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
