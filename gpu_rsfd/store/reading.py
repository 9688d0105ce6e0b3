"""A results file, checked when it is opened: what is wrong with it is one line with file and field.

What takes no time to read is read and checked at once; large arrays are, when they are first asked for.  Files of
format 1 are read as well (`old.py`).
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeGuard, TypeVar

import h5py
import numpy as np

from gpu_rsfd.checks import MAX_USERS, check_epsilon
from gpu_rsfd.command import command_of
from gpu_rsfd.datasets.base import check_labels
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.estimate import STORED
from gpu_rsfd.measure import MEASUREMENTS, Frequencies, measurement_of
from gpu_rsfd.measure.base import Measurement
from gpu_rsfd.planning import Look, Plan, Rates
from gpu_rsfd.protocols import Mechanism, Recipe, Unsampled
from gpu_rsfd.protocols.form import Thresholds, noise_of
from gpu_rsfd.results import Header, Measured, NotKept, Results
from gpu_rsfd.store.format import FORMAT, LOOKS, NUMBERS, UNSAMPLED, text_digest
from gpu_rsfd.store.identity import digest_of, key_of
from gpu_rsfd.store.strangers import check_links, one_value, open_regular, stored_fault
from gpu_rsfd.tape import KEEP_ONE, STREAM_VERSION

SUM_TOLERANCE = 1e-6  # frequencies of an attribute sum to 1
AT_ONCE = 32 << 20  # bytes of a file that are read when it is opened
TEXTS_AT_ONCE = 256
MOST_INTEGERS = 16  # of a noise
ATTRIBUTES = (  # of the file, all of them under one checksum
    *("format", "spec", "complete", "stream_version", "package_version", "numpy_version", "backend", "device"),
    "wall_time",
)

SIGNATURE = b"\x89HDF\r\n\x1a\n"  # an HDF5 file begins with it
T = TypeVar("T")


def open_results(path: str | os.PathLike[str]) -> Results:
    """Open a results file; of an unfinished run, the repetitions that are done.

    Parameters
    ----------
    path : str or path-like
        A file that `sweep`, `attack` or the command line wrote.

    Returns
    -------
    Results
        A `Result` for each data set of a sweep, an `AttackResult` for each of an attack.
    """
    with opened(Path(path)) as file:
        return Reader(Path(path), file).results()


def check_results_file(path: Path) -> None:
    """Refuses what is not a results file of gpu-rsfd, finished or not, damaged or not."""
    with opened(path):
        pass


def read_header(path: Path, spec: Mapping[str, Any], dataset: dict[str, Any]) -> Header:
    """A data set without repetitions, as it lies beside blocks."""
    with open_hdf5(path) as file:
        return Reader(path, file).header(file, dataset["name"], dataset, dict(spec))


def damaged(path: Path, begin: bytes, error: str) -> str:
    """What is wrong with a file that HDF5 can't open, and what to do."""
    if begin != SIGNATURE:
        return f"{path} is not an HDF5 file; a results file of gpu-rsfd is needed"
    whole = re.search(r"stored_eof = (\d+)", error)
    how = f"it ends after {path.stat().st_size:,} of {int(whole[1]):,} bytes" if whole else error.splitlines()[0]
    remove = shlex.join(["rm", str(path)])
    return (
        f"{path} is damaged: {how}, and its repetitions are lost; after `{remove}` the command that made it starts anew"
    )


@contextlib.contextmanager
def open_hdf5(path: Path) -> Iterator[Any]:
    """An HDF5 file that holds all that it names."""
    with contextlib.ExitStack() as stack:
        try:
            content = stack.enter_context(open_regular(path))
            begin = content.read(len(SIGNATURE))
        except ValueError as error:
            raise InputError(f"{path} {error}; a results file of gpu-rsfd is needed") from None
        except OSError as error:
            raise unreadable(path, error) from None
        try:
            file = stack.enter_context(h5py.File(content, "r"))
        except (OSError, RuntimeError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # of the machine
                raise unreadable(path, error) from error
            raise InputError(damaged(path, begin, str(error))) from error
        Reader(path, file).read("a name", lambda: check_links(file))
        yield file


def unreadable(path: Path, error: OSError) -> InputError:
    """Not the fault of the file."""
    reason = "permission denied" if isinstance(error, PermissionError) else error.strerror or str(error)
    return InputError(f"{path} can't be read: {reason}")


def missing(path: Path, command: str = "sweep") -> InputError:
    """What is said of a results file that is not there: the command that makes it, or that continues."""
    from gpu_rsfd.store.blocks import NAME, folder_of, parts_of, spec_of

    folder, quoted = folder_of(path), shlex.quote(str(path))
    if not folder.is_dir() or not any(NAME.fullmatch(file.name) for file in folder.iterdir()):
        return InputError(f"{path} does not exist; `gpu-rsfd {command} --output {quoted}` makes it")
    spec = spec_of(folder)
    again = None if spec is None else command_of(spec, output=path)
    how = f"`{again}`" if again is not None else "the command that began it"
    how += f" with each --part, then `gpu-rsfd merge {quoted}`" if parts_of(folder) else ""
    return InputError(f"{path} does not exist yet; {folder} holds finished repetitions of it; to continue: {how}")


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Any]:
    if path.is_dir():
        raise InputError(f"{path} is a directory; a results file is needed")
    if not path.exists():
        raise missing(path)
    with open_hdf5(path) as file:
        try:
            ours = "spec" in file.attrs and "stream_version" in file.attrs
        except (OSError, KeyError, RuntimeError):
            ours = False
        if not ours:
            raise InputError(f"{path} is an HDF5 file, but not a results file of gpu-rsfd")
        try:
            yield file
        except InputError as error:
            if str(error).startswith(f"{path} is damaged: "):
                raise InputError(f"{error}; the command that made it makes it anew with --overwrite") from None
            raise


class Reader:
    """Takes the fields out of an open file one by one, and refuses what gpu-rsfd can't have written."""

    def __init__(self, path: Path, file: Any) -> None:
        self.path, self.file = path, file
        self.room = AT_ONCE
        self.size = path.stat().st_size

    def refuse(self, field: str, why: str) -> NoReturn:
        raise InputError(f"{self.path} is damaged: {field} {why}")

    def read(self, field: str, read: Callable[[], T]) -> T:
        try:
            return read()
        except (MemoryError, InputError):
            raise
        except OSError as error:
            if error.errno is not None:  # of the machine
                raise unreadable(self.path, error) from error
            self.refuse(field, f"can't be read ({_first_line(error)})")
        except Exception as error:  # a damaged file makes HDF5 and h5py raise errors of almost any class
            self.refuse(field, f"can't be read ({_first_line(error)})")

    def checked(self, field: str, check: Callable[[], T]) -> T:
        """What a check of ours says, with the file and the field in front."""
        try:
            return check()
        except InputError as error:
            self.refuse(field, f"is not valid: {error}")

    # ------------------------------------------------------------------------------------------------- attributes

    def attribute(self, field: str, holder: Any = None) -> Any:
        return self.read(field, lambda: one_value(holder or self.file, field.rpartition("/")[2]))

    def whole(self, field: str, low: int, high: int, holder: Any = None) -> int:
        value = self.attribute(field, holder)
        if not isinstance(value, (int, np.integer)) or not low <= value <= high:
            self.refuse(field, f"is {_short(value)}; a whole number from {low} to {high} is needed")
        return int(value)

    def text(self, field: str, holder: Any = None) -> str:
        value = self.attribute(field, holder)
        value = self.read(field, value.decode) if isinstance(value, bytes) else value
        if not isinstance(value, str) or not _encodable(value):
            self.refuse(field, f"is {_short(value)}; text is needed")
        return str(value)

    def json(self, field: str) -> dict[str, Any]:
        text = self.text(field)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            self.refuse(field, f"is not JSON ({error})")
        if not isinstance(value, dict):
            self.refuse(field, f"is {_short(value)}; a JSON object is needed")
        return value

    # --------------------------------------------------------------------------------------------------- the file

    def results(self) -> Results:
        version = self.attribute("format")
        if isinstance(version, (int, np.integer)) and version > FORMAT:
            raise InputError(f"{self.path} was written by a newer gpu-rsfd ({self.text('package_version')})")
        if self.whole("format", 1, FORMAT) == 1:
            from gpu_rsfd.store.old import OldReader

            return OldReader(self.path, self.file).contents(1)
        stored = {name: self.attribute(name) for name in ATTRIBUTES}
        if self.read("sha256", lambda: attributes_digest(stored)) != self.text("sha256"):
            self.refuse("sha256", "does not fit the attributes: they have changed since the file was written")
        return self.contents(FORMAT)

    def contents(self, version: int) -> Results:
        stream = self.whole("stream_version", 0, MAX_USERS)
        if not 1 <= stream <= STREAM_VERSION:
            self.refuse("stream_version", f"is {stream}, which is unknown; this gpu-rsfd knows 1 to {STREAM_VERSION}")
        spec = self.json("spec")
        self.check_spec(spec)
        measurement = self.measurement(spec)
        if spec.get("stream_version", stream) != stream:
            self.refuse("spec", f"says stream_version {_short(spec['stream_version'])}, the file says {stream}")
        results = Results(
            spec=spec,
            complete=bool(self.whole("complete", 0, 1)),
            stream_version=stream,
            package_version=self.text("package_version"),
            backend=self.backend(),
            device=self.text("device"),
            format=version,
        )
        wall_time = self.json("wall_time")
        for dataset in spec["datasets"]:
            name = dataset["name"]
            if self.read(name, lambda name=name: name in self.file):  # type: ignore[misc]
                results[name] = self.group(name, dataset, spec, measurement)
                results.seconds[name] = self.seconds(wall_time, name)
        if not results:
            self.refuse("spec", "names data sets, but the file holds none of them")
        total = len(range(*spec["repetitions"]))
        done = len(results) == len(spec["datasets"]) and all(len(r.repetitions) == total for r in results.values())
        if done != results.complete:
            self.refuse("complete", f"is {int(results.complete)}, but the repetitions say {int(done)}")
        return results

    def backend(self) -> str:
        return self.text("backend")

    def measurement(self, spec: Mapping[str, Any]) -> Measurement:
        if spec.get("measurement", "frequencies") not in MEASUREMENTS:
            self.refuse("spec", f"has measurement {_short(spec['measurement'])}; known: {', '.join(MEASUREMENTS)}")
        return self.checked("spec", lambda: measurement_of(spec))

    def seconds(self, wall_time: dict[str, Any], name: str) -> float:
        entry = wall_time.get(name)
        value = entry.get("seconds") if isinstance(entry, dict) else None
        if not _number(value) or not 0 <= value < math.inf:
            self.refuse("wall_time", f"has no seconds >= 0 for {name}")
        return float(value)

    def check_spec(self, spec: dict[str, Any]) -> None:
        """Every part that is used further on."""
        for key in ("datasets", "protocols", "epsilons", "repetitions"):
            if not isinstance(spec.get(key), list) or not spec[key]:
                self.refuse("spec", f"has {key} {_short(spec.get(key))}; a list is needed")
        for key, valid in (("protocols", _name), ("epsilons", _number)):
            for i, value in enumerate(spec[key]):
                if not valid(value) or value in spec[key][:i]:
                    self.refuse("spec", f"has {key} {_short(value)}; different names or numbers are needed")
        for epsilon in spec["epsilons"]:
            self.checked("spec", lambda epsilon=epsilon: check_epsilon(epsilon))  # type: ignore[misc]
        bounds = spec["repetitions"]
        if len(bounds) != 3 or not all(_whole(b) and 0 <= b < 2**63 for b in bounds) or bounds[2] < 1:
            self.refuse("spec", f"has repetitions {_short(bounds)}; first, end and step are needed")
        if not range(*bounds):
            self.refuse("spec", f"has repetitions {_short(bounds)}; at least one is needed")
        for key in ("seed", "stream_version"):
            if not _whole(spec.get(key, 0)):
                self.refuse("spec", f"has {key} {_short(spec.get(key))}; a whole number is needed")
        for key in ("assignment", "sampler", "guarantee", "knowledge", "keep", "measurement"):
            if not isinstance(spec.get(key, ""), str):
                self.refuse("spec", f"has {key} {_short(spec.get(key))}; a name is needed")
        names: list[str] = []
        for dataset in spec["datasets"]:
            if not isinstance(dataset, dict):
                self.refuse("spec", f"has a data set {_short(dataset)}; a JSON object is needed")
            name, users = dataset.get("name"), dataset.get("users")
            if not _name(name) or name in names:
                self.refuse("spec", f"has a data set named {_short(name)}; different names are needed")
            if not _whole(users) or not 1 <= users <= MAX_USERS:
                self.refuse("spec", f"has users {_short(users)} for {name}; a whole number is needed")
            if not isinstance(dataset.get("domain"), list):
                self.refuse("spec", f"has domain {_short(dataset.get('domain'))} for {name}; a list is needed")
            self.checked("spec", lambda sizes=dataset["domain"]: Domain.of(sizes))  # type: ignore[misc]
            names.append(str(name))

    # ------------------------------------------------------------------------------------------------ a data set

    def array(self, group: Any, field: str, kinds: str, shape: tuple[int | None, ...]) -> Any:
        """A data set of numbers of these kinds and this shape, read; None in the shape is any size."""
        node = self.node(group, field, kinds, shape)
        return self.read(field, lambda: node[()])

    def node(self, group: Any, field: str, kinds: str, shape: tuple[int | None, ...]) -> Any:
        """The same, not read yet."""
        node = self.read(field, lambda: group[field.rpartition("/")[2]])
        if not isinstance(node, h5py.Dataset):
            self.refuse(field, "is not a data set of HDF5")
        has = self.read(field, lambda: (node.dtype, node.shape))
        if has[0].kind not in kinds or has[0].itemsize > 8:
            self.refuse(field, f"has dtype {has[0]}; {'whole ' * ('f' not in kinds)}numbers are needed")
        self.check_shape(field, has[1], shape)
        self.check_stored(field, node)
        return node

    def check_stored(self, field: str, node: Any) -> None:
        """That what an array declares is in this file."""
        fault = self.read(field, lambda: stored_fault(node, self.size))
        if fault is not None:
            self.refuse(field, fault)

    def texts(self, group: Any, field: str, shape: tuple[int, ...]) -> Any:
        """An array of text, as nested lists."""
        node = self.read(field, lambda: group[field.rpartition("/")[2]])
        if not isinstance(node, h5py.Dataset):
            self.refuse(field, "is not a data set of HDF5")
        self.check_shape(field, self.read(field, lambda: node.shape), shape)
        self.check_stored(field, node)
        return self.read(field, lambda: self._texts(node))

    def _texts(self, node: Any) -> Any:
        """Text lies apart from its array, and many elements may name the same: the sum is watched."""
        text, found, length = node.asstr(), [], 0
        step = max(1, TEXTS_AT_ONCE // max(1, math.prod(node.shape[1:])))
        for first in range(0, node.shape[0], step):
            some = text[first : first + step]
            length += sum(map(len, some.ravel()))
            if length > self.size:
                raise ValueError("it has more text than the file has bytes")
            found += some.tolist()
        return found

    def check_shape(self, field: str, has: Any, shape: tuple[int | None, ...]) -> None:
        sizes = has or ()
        if len(sizes) != len(shape) or any(want not in (None, size) for size, want in zip(sizes, shape, strict=True)):
            valid = ", ".join("any" if size is None else str(size) for size in shape)
            self.refuse(field, f"has shape {has}; ({valid}{',' * (len(shape) == 1)}) is needed")

    def group(self, name: str, dataset: dict[str, Any], spec: dict[str, Any], measurement: Measurement) -> Measured:
        group = self.read(name, lambda: self.file[name])
        if not isinstance(group, h5py.Group):
            self.refuse(name, "is not a group of HDF5")
        header, total = self.header(group, name, dataset, spec), range(*spec["repetitions"])
        nodes = {a.name: self.variable(group, name, header, a) for a in measurement.arrays()}
        done = min(node.shape[self.axis(a.name)] for a, node in zip(measurement.arrays(), nodes.values(), strict=True))
        last = list(nodes)[-1]
        if not 1 <= done <= len(total):
            self.refuse(f"{name}/{last}", f"has {done} repetitions; 1 to {len(total)} are valid")
        for field, node in nodes.items():
            if node.shape[self.axis(field)] != done:
                self.refuse(f"{name}/{field}", f"has {node.shape[self.axis(field)]} repetitions; {last} has {done}")
        self.check_scales(group, name, header, total[:done])
        size = sum(node.size * node.dtype.itemsize for node in nodes.values())
        found: dict[str, Any]
        if size <= self.room:
            self.room -= size
            found = self.repetitions(group, name, header, measurement, done, list(nodes))
        else:
            found = {f: _Late(self.path.absolute(), header, key_of(spec, dataset), name, f, done) for f in nodes}
        if isinstance(measurement, Frequencies):
            found.setdefault("counts", NotKept(str(self.path)))
        plain = {key: value for key, value in spec.items() if key != "datasets"}
        return self.result(group, measurement, header, total[:done], plain, found)

    def result(
        self,
        group: Any,
        measurement: Measurement,
        header: Header,
        repetitions: range,
        spec: dict[str, Any],
        arrays: dict[str, Any],
    ) -> Measured:
        return measurement.result(header, repetitions, spec, arrays)

    def axis(self, field: str) -> int:
        """Of the repetitions."""
        return 2

    def variable(self, group: Any, name: str, header: Header, array: Any) -> Any:
        kinds = "iu" if np.dtype(array.dtype).kind == "i" else "f"
        cell = (len(header.protocols), len(header.epsilons))
        return self.node(group, f"{name}/{array.name}", kinds, (*cell, None, *array.tail(header)))

    def repetitions(
        self, group: Any, name: str, header: Header, measurement: Measurement, done: int, fields: Sequence[str]
    ) -> dict[str, Any]:
        """The first repetitions of some arrays, read and checked."""
        found: dict[str, Any] = {}
        for array in measurement.arrays():
            if array.name in fields or (array.name == "reporters" and "counts" in fields):
                node = self.variable(group, name, header, array)
                read = self.read(f"{name}/{array.name}", lambda node=node: node[:, :, :done])  # type: ignore[misc]
                found[array.name] = read.astype(array.dtype, copy=False)
        wrong = measurement.check(header, found)
        if wrong is not None:
            self.refuse(f"{name}/{wrong[0]}", wrong[1])
        return {field: found[field] for field in fields}

    # ------------------------------------------------------------------------------------------------- the header

    def header(self, group: Any, name: str, dataset: dict[str, Any], spec: dict[str, Any]) -> Header:
        """All about a data set but its repetitions."""
        users = self.whole(f"{name}/users", 1, MAX_USERS, group)
        if users != dataset["users"]:
            self.refuse(f"{name}/users", f"is {users}, but spec says {dataset['users']}")
        domain = self.domain(group, name, dataset)
        protocols, epsilons, d = tuple(spec["protocols"]), tuple(map(float, spec["epsilons"])), len(domain)
        every = (len(protocols), len(epsilons), d)
        texts = {
            "protocol": self.texts(group, f"{name}/protocol", (len(protocols),)),
            "postprocess": self.texts(group, f"{name}/postprocess", (len(STORED),)),
            "attribute": self.texts(group, f"{name}/attribute", (d,)),
            "value": self.texts(group, f"{name}/value", (domain.total,)),
            **{f"protocol_{x}": self.texts(group, f"{name}/protocol_{x}", (len(protocols),)) for x in LOOKS},
            "mechanism": self.texts(group, f"{name}/mechanism", every),
        }
        labels = None
        if self.read(f"{name}/label", lambda: "label" in group):
            texts["label"] = self.texts(group, f"{name}/label", (domain.total,))
            parts = [texts["label"][columns] for columns in domain.slices]
            labels = self.checked(f"{name}/label", lambda: check_labels(parts, domain))
        noises = self.read(f"{name}/noises", lambda: [str(kind) for kind in json.loads(one_value(group, "noises"))])
        if text_digest(users, noises, texts) != self.text(f"{name}/sha256", group):
            self.refuse(f"{name}/sha256", "does not fit the text of the group, which has changed since")
        looks = tuple(Look(*row) for row in zip(protocols, *(texts[f"protocol_{x}"] for x in LOOKS), strict=True))
        frequencies = self.frequencies(group, name, domain)
        plan = self.plan(group, name, domain, looks, epsilons, spec, texts["mechanism"], noises)
        return Header(users, domain, tuple(texts["attribute"]), frequencies, plan, labels)

    def domain(self, group: Any, name: str, dataset: dict[str, Any]) -> Domain:
        sizes = self.array(group, f"{name}/domain", "iu", (len(dataset["domain"]),)).tolist()
        if sizes != dataset["domain"]:
            self.refuse(f"{name}/domain", f"is {_short(sizes)}, but spec says {_short(dataset['domain'])}")
        return Domain(sizes)

    def plan(
        self,
        group: Any,
        name: str,
        domain: Domain,
        looks: tuple[Look, ...],
        epsilons: tuple[float, ...],
        spec: Mapping[str, Any],
        mechanisms: Any,
        noises: Sequence[str],
    ) -> Plan:
        """The plan as its integers and rates say, whatever protocols this installation knows."""
        every = (len(looks), len(epsilons), len(domain))
        count = self.read(name, lambda: sum(f"integer_{i + 1}" in group for i in range(MOST_INTEGERS)))
        columns = [self.array(group, f"{name}/integer_{i + 1}", "i", every) for i in range(count)]
        columns += [
            self.array(group, f"{name}/{field}", "i" if dtype is np.int8 else "f", every)
            for field, dtype in NUMBERS.items()
        ]
        rows = list(zip(*(column.ravel().tolist() for column in columns), strict=True))
        priors = self.priors(group, name, domain)
        known: dict[tuple[Any, ...], tuple[Recipe, Rates, Mechanism]] = {}

        def cell(i: int, j: int, mechanism: str) -> tuple[Recipe, Rates, Mechanism]:
            row = rows[i]
            key = (j if priors[j] is not None else -1, domain[j], mechanism, row)
            if key not in known:
                known[key] = self._cell(name, row[:count], row[count:], mechanism, domain, j, priors[j], noises)
            return known[key]

        flat = iter(range(len(rows)))
        table = [
            [[cell(next(flat), j, text) for j, text in enumerate(texts)] for texts in by_epsilon]
            for by_epsilon in mechanisms
        ]
        rates = {(recipe, len(domain), m.k): r for recipe, r, m in known.values()}
        plan = Plan.compiled(
            domain,
            looks,
            epsilons,
            [[[one[0] for one in row] for row in by_epsilon] for by_epsilon in table],
            str(spec.get("assignment", "uniform")),
            lambda recipe, d, k: rates[recipe, d, k],
        )
        plan.__dict__["mechanisms"] = tuple(
            tuple(tuple(one[2] for one in row) for row in by_epsilon) for by_epsilon in table
        )
        return plan

    def _cell(
        self,
        name: str,
        integers: Sequence[int],
        row: Sequence[Any],
        mechanism: str,
        domain: Domain,
        j: int,
        prior: Thresholds | None,
        noises: Sequence[str],
    ) -> tuple[Recipe, Rates, Mechanism]:
        unsampled, noise, plain, claimed, base, slope, gain, budget, spent, loss, bits = row
        if not 0 <= unsampled < len(UNSAMPLED) or not 0 <= noise < len(noises):
            self.refuse(f"{name}/unsampled", f"has {unsampled}, or noise {noise}, which mean nothing")
        if not (math.isfinite(base) and math.isfinite(slope) and math.isfinite(gain) and gain > 0):
            self.refuse(f"{name}/gain", f"is {gain}, with base {base} and slope {slope}; estimates need gain > 0")
        has_prior = UNSAMPLED[unsampled] == "prior"
        if has_prior and prior is None:
            self.refuse(f"{name}/prior", f"is missing for attribute {j}")
        given = [i for i in integers if i >= 0]
        what = self.read(f"{name}/noise", lambda: noise_of(noises[noise], given))
        others = Unsampled.FAKE if has_prior else Unsampled(UNSAMPLED[unsampled])
        recipe = self.read(f"{name}/noise", lambda: Recipe(others, what, prior if has_prior else None))
        made = Mechanism(
            mechanism, len(domain), domain[j], budget, recipe, spent, loss, bits, bool(plain), bool(claimed)
        )
        return recipe, Rates(base, slope, gain), made

    def priors(self, group: Any, name: str, domain: Domain) -> tuple[Thresholds | None, ...]:
        """The distribution of fake values, as its thresholds realise it; None where it is uniform."""
        field = f"{name}/prior"
        if not self.read(field, lambda: "prior" in group):
            return (None,) * len(domain)
        column = self.array(group, field, "i", (domain.total,)).tolist()
        rows: list[Thresholds | None] = []
        for j, columns in enumerate(domain.slices):
            row = column[columns]
            uniform = all(t == -1 for t in row)
            if not uniform and (row[-1] != KEEP_ONE or row[0] < 0 or sorted(row) != row):
                self.refuse(field, f"is {_short(row)} for attribute {j}; ascending thresholds up to 2**32 are needed")
            rows.append(None if uniform else tuple(row[:-1]))
        return tuple(rows)

    def check_scales(self, group: Any, name: str, header: Header, repetitions: range) -> None:
        """What xarray shows beside the arrays is what the spec says."""
        protocols = self.texts(group, f"{name}/protocol", (len(header.protocols),))
        epsilons = self.array(group, f"{name}/epsilon", "fiu", (len(header.epsilons),))
        numbers = self.array(group, f"{name}/repetition", "iu", (len(repetitions),))
        for field, has, wanted in (
            ("protocol", tuple(protocols), header.protocols),
            ("epsilon", tuple(epsilons.tolist()), header.epsilons),
            ("repetition", tuple(numbers.tolist()), tuple(repetitions)),
        ):
            if has != wanted:
                self.refuse(f"{name}/{field}", f"is {_short(has)}, but spec says {_short(wanted)}")

    def frequencies(self, group: Any, name: str, domain: Domain) -> Any:
        field = f"{name}/frequency"
        frequencies = self.array(group, field, "f", (sum(domain),)).astype(np.float64)
        if not (np.isfinite(frequencies) & (frequencies >= 0) & (frequencies <= 1)).all():
            self.refuse(field, "has numbers outside 0 … 1")
        for j, columns in enumerate(domain.slices):
            if abs((total := float(frequencies[columns].sum())) - 1) > SUM_TOLERANCE:
                self.refuse(field, f"sums to {total:g} over attribute {j}; it must be 1")
        return frequencies


def attributes_digest(attributes: Mapping[str, Any]) -> str:
    """One checksum of all attributes of a file."""
    plain = {name: int(value) if isinstance(value, np.integer) else value for name, value in attributes.items()}
    return digest_of(plain)


@dataclass(frozen=True)
class _Late:
    """Reads a large array when it is asked for, from whatever file is at the path then."""

    path: Path
    header: Header
    key: str
    name: str
    field: str
    done: int

    def __call__(self) -> Any:
        with opened(self.path) as file:
            reader: Reader = Reader(self.path, file)
            if file.attrs["format"] == 1:
                from gpu_rsfd.store.old import OldReader

                reader = OldReader(self.path, file)
            spec = reader.json("spec")
            dataset = next((d for d in spec["datasets"] if d["name"] == self.name), None)
            if dataset is None or key_of(spec, dataset) != self.key:
                raise self._another()
            group = reader.read(self.name, lambda: file[self.name])
            header = reader.header(group, self.name, dataset, spec)
            places = self._places(header)
            measured = reader.measurement(spec)
            read = reader.repetitions(group, self.name, header, measured, self.done, [self.field])[self.field]
            return read[np.ix_(*places)]

    def _places(self, header: Header) -> tuple[list[int], list[int]]:
        """Where the cells are in the file now, which may have grown."""
        mine = self.header
        if not set(mine.protocols) <= set(header.protocols) or not set(mine.epsilons) <= set(header.epsilons):
            raise self._another()
        rows = [header.protocols.index(protocol) for protocol in mine.protocols]
        columns = [header.epsilons.index(epsilon) for epsilon in mine.epsilons]
        for p, row in enumerate(rows):
            for e, column in enumerate(columns):
                if mine.plan.digest(p, e) != header.plan.digest(row, column):
                    raise self._another()
        return rows, columns

    def _another(self) -> InputError:
        return InputError(f"{self.path} holds another run than when it was opened")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _number(value: object) -> TypeGuard[float]:
    return isinstance(value, float) or (_whole(value) and abs(value) < 2**63)


def _whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value) and _encodable(value)


def _encodable(text: str) -> bool:
    """No lone surrogates, which h5py and JSON let through, but no terminal or figure can show."""
    return not any("\ud800" <= c <= "\udfff" for c in text)


def _short(value: object) -> str:
    text = ascii(value).replace("\\n", " ")
    return text if len(text) <= 60 else f"{text[:57]}..."
