"""Attacks on several data sets in one HDF5 file: saved block by block, continued by the same call."""

from __future__ import annotations

import io
import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import h5py
import numpy as np

from gpu_rsfd.checks import MAX_USERS
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.plan import Plan
from gpu_rsfd.privacy.attacking import Attacker, AttackResult, check_knowledge
from gpu_rsfd.spec import Spec
from gpu_rsfd.store.files import locked, replace_file
from gpu_rsfd.store.hdf5 import prior_column
from gpu_rsfd.store.identity import differences
from gpu_rsfd.store.reading import FORMAT, Reader, opened
from gpu_rsfd.sweeping import SAVE_EVERY, Reporter, Silent, check_output, describe
from gpu_rsfd.tape import STREAM_VERSION
from gpu_rsfd.version import __version__

KIND = "attack"  # what tells these files from those of a sweep
FIRST_SPEED = 1e7  # positions a second, a guess until the first block has been timed


class AttackResults(dict[str, AttackResult]):
    """Attacks per data set, with what is known about the run."""

    def __init__(
        self,
        results: Mapping[str, AttackResult] = MappingProxyType({}),
        *,
        spec: Mapping[str, Any] = MappingProxyType({}),
        complete: bool = True,
        device: str = "",
        seconds: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        super().__init__(results)
        self.spec, self.complete, self.device = dict(spec), complete, device
        self.seconds = dict(seconds)
        self.computed = 0  # repetitions that the call which gave these results has attacked


def attack_all(
    datasets: Sequence[Dataset],
    spec: Spec,
    attacker: Attacker,
    output: str | os.PathLike[str],
    overwrite: bool = False,
    save_every: float = SAVE_EVERY,
    reporter: Reporter | None = None,
) -> AttackResults:
    """Attack data sets into one file, and give what it then holds; a file that has a part of it is continued."""
    path = Path(output)
    target = check_output(path)
    want = {**describe(datasets, spec), "kind": KIND, "knowledge": attacker.knowledge}
    with locked(target):
        results = AttackResults(spec=want, complete=False)
        if path.exists() and not overwrite:
            results = open_attacks(path)
            if results.spec != want:
                lines = "\n  ".join(differences(results.spec, want))
                raise InputError(
                    f"output={path} holds another attack; give another --output, or --overwrite it\n  {lines}"
                )
            for data in datasets:
                if data.name in results and results[data.name].terms != spec.terms_for(data):
                    raise InputError(
                        f"output={path} has another realised prior for {data.name} (drawn by another NumPy?); "
                        "give another --output, or --overwrite it"
                    )
        _run(datasets, spec, attacker, target, results, save_every, reporter or Silent())
        return results


def _run(
    datasets: Sequence[Dataset],
    spec: Spec,
    attacker: Attacker,
    target: Path,
    results: AttackResults,
    save_every: float,
    reporter: Reporter,
) -> None:
    total = len(spec.repetitions)
    done = {name: len(result.repetitions) for name, result in results.items()}
    if all(done.get(data.name) == total for data in datasets):
        return
    results.device = attacker.device
    plans = {
        d.name: Plan.of(d.domain, spec.protocols, spec.epsilons, spec.assignment, spec.terms_for(d)) for d in datasets
    }
    sizes = {d.name: plans[d.name].positions(d.n) for d in datasets}
    reporter.begin(total * sum(sizes.values()), sum(sizes[name] * count for name, count in done.items()))
    speed = FIRST_SPEED
    for data in datasets:
        first = done.get(data.name, 0)
        if first < total:
            reporter.dataset(data.name)
        while first < total:
            wanted = max(1, int(save_every * speed / sizes[data.name]))
            count = min(total - first, -(-wanted // attacker.workers) * attacker.workers)
            started = time.perf_counter()
            block = attacker.attack(
                data,
                replace(spec, repetitions=spec.repetitions[first : first + count]),
                reporter.advance,
            )
            took = time.perf_counter() - started
            before = results.get(data.name)
            results[data.name] = block if before is None else before.extended(block)
            results.seconds[data.name] = results.seconds.get(data.name, 0.0) + took
            results.computed += count
            speed = sizes[data.name] * count / took
            first += count
            results.complete = all(d.name in results and len(results[d.name].repetitions) == total for d in datasets)
            save_attacks(target, results)
    reporter.end()


# ---------------------------------------------------------------------------------------------------------- writing


def save_attacks(path: Path, results: AttackResults) -> None:
    """All that is done, in the order of the spec; data sets have dimension scales, as xarray reads them."""
    image = io.BytesIO()
    with h5py.File(image, "w", libver="v108") as file:
        file.attrs["format"] = FORMAT
        file.attrs["spec"] = json.dumps(results.spec)
        file.attrs["complete"] = np.uint8(results.complete)
        file.attrs["stream_version"] = STREAM_VERSION
        file.attrs["package_version"] = __version__
        file.attrs["numpy_version"] = np.__version__
        file.attrs["device"] = results.device
        file.attrs["wall_time"] = json.dumps({name: {"seconds": s} for name, s in results.seconds.items()})
        for dataset in results.spec["datasets"]:
            if dataset["name"] in results:
                _write(file.create_group(dataset["name"]), results[dataset["name"]])
    replace_file(path, image.getbuffer())


def _write(group: Any, result: AttackResult) -> None:
    priors = result.terms.priors
    group.attrs["users"] = result.n
    group.attrs["sampled_baseline"] = result.sampled_baseline
    group.attrs["value_baseline"] = result.value_baseline
    text, spec = h5py.string_dtype(), result.spec
    scales = {
        "protocol": np.array(spec.protocols, text),
        "epsilon": np.array(spec.epsilons),
        "repetition": np.array(spec.repetitions, np.uint64),
        "attribute": np.array(result.names, text),
    }
    if priors is not None:
        values = [f"{name}={v}" for name, k in zip(result.names, result.domain, strict=True) for v in range(k)]
        scales["held"] = np.array(values, text)
    for name, content in scales.items():
        group.create_dataset(name, data=content).make_scale(name)
    cells = ("protocol", "epsilon", "repetition")
    variables: dict[str, tuple[tuple[str, ...], Any]] = {
        "sampled": (cells, result.sampled),
        "value": (cells, result.value),
        "domain": (("attribute",), np.array(result.domain, np.int32)),
    }
    if priors is not None:
        variables["prior"] = (("held",), prior_column(priors, result.domain))
    for name, (dimensions, content) in variables.items():
        dataset = group.create_dataset(name, data=content)
        for axis, dimension in enumerate(dimensions):
            dataset.dims[axis].attach_scale(group[dimension])


# ---------------------------------------------------------------------------------------------------------- reading


def open_attacks(path: str | os.PathLike[str]) -> AttackResults:
    """The attacks in a file, per data set; a file that is not finished gives the repetitions that are done."""
    with opened(Path(path)) as file:
        return _AttackReader(Path(path), file).attacks()


def is_attack(path: Path) -> bool:
    """Whether a file of gpu-rsfd holds an attack, not a sweep."""
    with opened(path) as file:
        return Reader(path, file).json("spec").get("kind") == KIND


class _AttackReader(Reader):
    def attacks(self) -> AttackResults:
        if self.whole("format", 1, MAX_USERS) > FORMAT:
            raise InputError(f"{self.path} was written by a newer gpu-rsfd ({self.text('package_version')})")
        document = self.json("spec")
        if document.get("kind") != KIND:
            raise InputError(f"{self.path} holds a sweep, not an attack; `gpu-rsfd show {self.path}` shows it")
        spec = self.spec(document)
        knowledge = self.checked("spec", lambda: check_knowledge(document.get("knowledge")))
        results = AttackResults(spec=document, complete=bool(self.whole("complete", 0, 1)), device=self.text("device"))
        wall_time = self.json("wall_time")
        for dataset in document["datasets"]:
            name = dataset["name"]
            if self.read(name, lambda name=name: name in self.file):  # type: ignore[misc]
                results[name] = self.attacked(name, dataset, spec, knowledge)
                results.seconds[name] = self.seconds(wall_time, name)
        if not results:
            self.refuse("spec", "names data sets, but the file holds none of them")
        return results

    def attacked(self, name: str, dataset: dict[str, Any], spec: Spec, knowledge: str) -> AttackResult:
        group = self.read(name, lambda: self.file[name])
        if not isinstance(group, h5py.Group):
            self.refuse(name, "is not a group of HDF5")
        domain = Domain(dataset["domain"])
        cells = len(spec.protocols), len(spec.epsilons)
        shares = {f: self.array(group, f"{name}/{f}", "f", (*cells, None)) for f in ("sampled", "value")}
        done = shares["value"].shape[2]
        if not 1 <= done <= len(spec.repetitions) or shares["sampled"].shape[2] != done:
            self.refuse(f"{name}/value", f"has {done} repetitions; 1 to {len(spec.repetitions)} are valid")
        for field, share in shares.items():
            if not (np.isnan(share) | ((share >= 0) & (share <= 1))).all():
                self.refuse(f"{name}/{field}", "has numbers outside 0 … 1")
        return AttackResult(
            self.whole(f"{name}/users", 1, MAX_USERS, group),
            domain,
            self.texts(group, f"{name}/attribute", len(domain)),
            replace(spec, repetitions=spec.repetitions[:done]),
            knowledge,
            shares["sampled"],
            shares["value"],
            self._baseline(group, name, "sampled_baseline"),
            self._baseline(group, name, "value_baseline"),
            terms=spec.terms_with(self.priors(group, name, domain)),
        )

    def _baseline(self, group: Any, name: str, field: str) -> float:
        value = self.read(f"{name}/{field}", lambda: float(group.attrs[field]))
        if not 0 <= value <= 1 or math.isnan(value):
            self.refuse(f"{name}/{field}", f"is {value}; a number from 0 to 1 is needed")
        return value
