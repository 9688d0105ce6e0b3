"""A results file, checked when it is opened: what is wrong with it is one line with file and field.

What takes no time to read is read and checked at once; large arrays are, when they are first asked for.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, TypeGuard, TypeVar

import h5py
import numpy as np

from gpu_rsfd.checks import MAX_USERS
from gpu_rsfd.datasets.base import check_labels
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.estimate import POSTPROCESS
from gpu_rsfd.protocols import TERMS
from gpu_rsfd.protocols.form import Thresholds
from gpu_rsfd.results import NotKept, Result, Results
from gpu_rsfd.spec import Spec
from gpu_rsfd.store.identity import KEEP, key_of
from gpu_rsfd.tape import KEEP_ONE, STREAM_VERSION

FORMAT = 1  # of the file; the stream has a version of its own
SUM_TOLERANCE = 1e-6  # frequencies of an attribute sum to 1
AT_ONCE = 32 << 20  # bytes of a file that are read when it is opened

T = TypeVar("T")


def open_results(path: str | os.PathLike[str]) -> Results:
    """The results in a file, per data set; a file of an unfinished sweep gives the repetitions that are done."""
    with opened(Path(path)) as file:
        return Reader(Path(path), file).results()


def check_results_file(path: Path) -> None:
    """Refuses what is not a results file of gpu-rsfd, finished or not, damaged or not."""
    with opened(path):
        pass


def read_head(path: Path, document: Mapping[str, Any], dataset: dict[str, Any]) -> Result:
    """A data set without repetitions, as it lies beside blocks."""
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise InputError(f"{path} can't be read: {(str(error).splitlines() or ['?'])[0]}") from error
    with file:
        reader = Reader(path, file)
        return reader.head(file, dataset["name"], dataset, reader.spec(dict(document)))


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Any]:
    if path.is_dir():
        raise InputError(f"{path} is a directory; a results file is needed")
    if not path.exists():
        raise InputError(f"{path} does not exist; `gpu-rsfd sweep --output {path}` makes it")
    if not path.is_file():
        raise InputError(f"{path} is not a regular file; a results file of gpu-rsfd is needed")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        if not os.access(path, os.R_OK):
            raise InputError(f"{path} can't be read: permission denied") from None
        raise InputError(f"{path} is not an HDF5 file; a results file of gpu-rsfd is needed") from error
    with file:
        try:
            ours = "spec" in file.attrs and "stream_version" in file.attrs
        except (OSError, KeyError, RuntimeError):
            ours = False
        if not ours:
            raise InputError(f"{path} is an HDF5 file, but not a results file of gpu-rsfd")
        yield file


class Reader:
    """Takes the fields out of an open file one by one, and refuses what gpu-rsfd can't have written."""

    def __init__(self, path: Path, file: Any) -> None:
        self.path, self.file = path, file
        self.room = AT_ONCE

    def refuse(self, field: str, why: str) -> NoReturn:
        raise InputError(f"{self.path} is damaged: {field} {why}")

    def read(self, field: str, read: Callable[[], T]) -> T:
        try:
            return read()
        except (MemoryError, InputError):
            raise
        except Exception as error:  # a damaged file makes HDF5 and h5py raise errors of almost any class
            line = (str(error).strip().splitlines() or [type(error).__name__])[0]
            self.refuse(field, f"can't be read ({line})")

    def checked(self, field: str, check: Callable[[], T]) -> T:
        """What a check of ours says, with the file and the field in front."""
        try:
            return check()
        except InputError as error:
            self.refuse(field, f"is not valid: {error}")

    # ------------------------------------------------------------------------------------------------- attributes

    def whole(self, field: str, low: int, high: int, holder: Any = None) -> int:
        attributes = self.file.attrs if holder is None else holder.attrs
        value = self.read(field, lambda: attributes[field.rpartition("/")[2]])
        if not isinstance(value, (int, np.integer)) or not low <= value <= high:
            self.refuse(field, f"is {_short(value)}; a whole number from {low} to {high} is needed")
        return int(value)

    def text(self, field: str) -> str:
        value = self.read(field, lambda: self.file.attrs[field])
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
        version = self.read("format", lambda: self.file.attrs["format"])
        if isinstance(version, (int, np.integer)) and version > FORMAT:
            raise InputError(f"{self.path} was written by a newer gpu-rsfd ({self.text('package_version')})")
        self.whole("format", 1, FORMAT)
        stream = self.whole("stream_version", 0, MAX_USERS)
        if not 1 <= stream <= STREAM_VERSION:
            self.refuse("stream_version", f"is {stream}, which is unknown; this gpu-rsfd knows 1 to {STREAM_VERSION}")
        document = self.json("spec")
        if "kind" in document:
            raise InputError(f"{self.path} holds an attack, not a sweep; `gpu-rsfd show {self.path}` shows it")
        spec = self.spec(document)
        if document.get("stream_version", stream) != stream:
            self.refuse("spec", f"says stream_version {_short(document['stream_version'])}, the file says {stream}")
        if document.get("keep", "counts") not in KEEP:
            self.refuse("spec", f"has keep {_short(document['keep'])}; one of {', '.join(KEEP)} is needed")
        described = {dataset["name"]: dataset for dataset in document["datasets"]}
        results = Results(
            spec=document,
            complete=bool(self.whole("complete", 0, 1)),
            stream_version=stream,
            package_version=self.text("package_version"),
            backend=self.text("backend"),
            device=self.text("device"),
        )
        wall_time = self.json("wall_time")
        for name, dataset in described.items():
            if self.read(name, lambda name=name: name in self.file):  # type: ignore[misc]
                results[name] = self.group(name, dataset, spec, document)
                results.seconds[name] = self.seconds(wall_time, name)
        if not results:
            self.refuse("spec", "names data sets, but the file holds none of them")
        total = len(spec.repetitions)
        done = len(results) == len(described) and all(len(r.repetitions) == total for r in results.values())
        if done != results.complete:
            self.refuse("complete", f"is {int(results.complete)}, but the repetitions say {int(done)}")
        return results

    def seconds(self, wall_time: dict[str, Any], name: str) -> float:
        entry = wall_time.get(name)
        value = entry.get("seconds") if isinstance(entry, dict) else None
        if not _number(value) or not 0 <= value < math.inf:
            self.refuse("wall_time", f"has no seconds >= 0 for {name}")
        return float(value)

    def spec(self, document: dict[str, Any]) -> Spec:
        """The spec, every part of it checked as if it came from the command line."""
        for key in ("datasets", "protocols", "epsilons", "repetitions"):
            if not isinstance(document.get(key), list) or not document[key]:
                self.refuse("spec", f"has {key} {_short(document.get(key))}; a list is needed")
        for epsilon in document["epsilons"]:
            if not _number(epsilon):
                self.refuse("spec", f"has epsilon {_short(epsilon)}; a number is needed")
        bounds = document["repetitions"]
        if len(bounds) != 3 or not all(_whole(b) and -(2**63) < b < 2**63 for b in bounds) or bounds[2] < 1:
            self.refuse("spec", f"has repetitions {_short(bounds)}; first, end and step are needed")
        names = []
        for dataset in document["datasets"]:
            if not isinstance(dataset, dict):
                self.refuse("spec", f"has a data set {_short(dataset)}; a JSON object is needed")
            name, users = dataset.get("name"), dataset.get("users")
            if not isinstance(name, str) or not name or not _encodable(name) or name in names:
                self.refuse("spec", f"has a data set named {_short(name)}; different names are needed")
            if not _whole(users) or not 1 <= users <= MAX_USERS:
                self.refuse("spec", f"has users {_short(users)} for {name}; a whole number is needed")
            if not isinstance(dataset.get("domain"), list):
                self.refuse("spec", f"has domain {_short(dataset.get('domain'))} for {name}; a list is needed")
            self.checked("spec", lambda sizes=dataset["domain"]: Domain.of(sizes))  # type: ignore[misc]
            names.append(name)
        return self.checked(
            "spec",
            lambda: Spec.of(
                document["protocols"],
                document["epsilons"],
                range(*bounds),
                document.get("seed"),  # type: ignore[arg-type]
                document.get("assignment"),  # type: ignore[arg-type]
                document.get("sampler"),  # type: ignore[arg-type]
                document.get("first_report", TERMS.first_report),
                document.get("guarantee", TERMS.guarantee),
                document.get("prior"),
                document.get("prior_seed", 0),
            ),
        )

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
        return node

    def texts(self, group: Any, field: str, size: int) -> tuple[str, ...]:
        node = self.read(field, lambda: group[field.rpartition("/")[2]])
        if not isinstance(node, h5py.Dataset):
            self.refuse(field, "is not a data set of HDF5")
        self.check_shape(field, self.read(field, lambda: node.shape), (size,))
        return self.read(field, lambda: tuple(map(str, node.asstr()[()])))

    def check_shape(self, field: str, has: Any, shape: tuple[int | None, ...]) -> None:
        sizes = has or ()
        if len(sizes) != len(shape) or any(want not in (None, size) for size, want in zip(sizes, shape, strict=True)):
            valid = ", ".join("any" if size is None else str(size) for size in shape)
            self.refuse(field, f"has shape {has}; ({valid}{',' * (len(shape) == 1)}) is needed")

    def group(self, name: str, dataset: dict[str, Any], spec: Spec, document: dict[str, Any]) -> Result:
        group = self.read(name, lambda: self.file[name])
        if not isinstance(group, h5py.Group):
            self.refuse(name, "is not a group of HDF5")
        head = self.head(group, name, dataset, spec)
        cell, counted = (len(spec.protocols), len(spec.epsilons)), document.get("keep", "counts") == "counts"
        field, last = ("counts", head.domain.total) if counted else ("reporters", len(head.domain))
        node = self.node(group, f"{name}/{field}", "iu", (*cell, None, last))
        done = node.shape[2]
        if not 1 <= done <= len(spec.repetitions):
            self.refuse(f"{name}/{field}", f"has {done} repetitions; 1 to {len(spec.repetitions)} are valid")
        self.check_scales(group, name, spec, spec.repetitions[:done])
        nodes = {field: node, "reporters": self.node(group, f"{name}/reporters", "iu", (*cell, done, len(head.domain)))}
        if self.has_errors(group, name):
            nodes["errors"] = self.node(group, f"{name}/mse", "f", (len(POSTPROCESS), *cell, done))
        found: dict[str, Any] = {"counts": NotKept(str(self.path))}
        size = sum(node.size * node.dtype.itemsize for node in nodes.values())
        if size <= self.room:
            self.room -= size
            found |= self.repetitions(group, name, head, done, list(nodes))
        else:
            where = self.path.absolute()
            found |= {field: _Late(where, name, dataset, key_of(document), field, done) for field in nodes}
        return replace(head, spec=replace(spec, repetitions=spec.repetitions[:done]), **found)

    def repetitions(self, group: Any, name: str, head: Result, done: int, fields: Sequence[str]) -> dict[str, Any]:
        """The first repetitions of some variables, read and checked."""
        spec, domain = head.spec, head.domain
        cell = (len(spec.protocols), len(spec.epsilons))
        found: dict[str, Any] = {}
        wanted = dict.fromkeys([*fields, *(["reporters"] if "counts" in fields else [])])
        for field, size in (("counts", domain.total), ("reporters", len(domain))):
            if field in wanted:
                node = self.node(group, f"{name}/{field}", "iu", (*cell, None, size))
                found[field] = self.read(f"{name}/{field}", lambda node=node: node[:, :, :done])  # type: ignore[misc]
        if "errors" in wanted:
            node = self.node(group, f"{name}/mse", "f", (len(POSTPROCESS), *cell, None))
            found["errors"] = self.read(f"{name}/mse", lambda: node[..., :done]).astype(np.float64, copy=False)
        self.check_counts(name, found.get("counts"), found.get("reporters"), head.n, domain)
        for field in ("counts", "reporters"):
            if field in found:
                found[field] = found[field].astype(np.int64, copy=False)
        return {field: found[field] for field in fields}

    def has_errors(self, group: Any, name: str) -> bool:
        """Not if the file was written before a post-processing was added, or without any."""
        field = f"{name}/postprocess"
        if not self.read(field, lambda: "postprocess" in group and "mse" in group):
            return False
        size = self.read(field, lambda: len(group["postprocess"]))
        return self.texts(group, field, size) == tuple(POSTPROCESS)

    def head(self, group: Any, name: str, dataset: dict[str, Any], spec: Spec) -> Result:
        """All about a data set but its repetitions."""
        users = self.whole(f"{name}/users", 1, MAX_USERS, group)
        if users != dataset["users"]:
            self.refuse(f"{name}/users", f"is {users}, but spec says {dataset['users']}")
        sizes = self.array(group, f"{name}/domain", "iu", (len(dataset["domain"]),)).tolist()
        if sizes != dataset["domain"]:
            self.refuse(f"{name}/domain", f"is {_short(sizes)}, but spec says {_short(dataset['domain'])}")
        domain = Domain(sizes)
        labels = None
        if self.read(f"{name}/label", lambda: "label" in group):
            texts = self.texts(group, f"{name}/label", domain.total)
            parts = [texts[columns] for columns in domain.slices]
            labels = self.checked(f"{name}/label", lambda: check_labels(parts, domain))
        cell = (len(spec.protocols), len(spec.epsilons), 0)
        result = Result(
            n=users,
            domain=domain,
            names=self.texts(group, f"{name}/attribute", len(domain)),
            frequencies=self.frequencies(group, name, domain),
            spec=spec,
            counts=np.empty((*cell, domain.total), np.int64),
            reporters=np.empty((*cell, len(domain)), np.int64),
            labels=labels,
            terms=spec.terms_with(self.priors(group, name, domain)),
        )
        self.checked("spec", lambda: self.read("spec", lambda: result.plan))  # an epsilon that no protocol can use
        return result

    def priors(self, group: Any, name: str, domain: Domain) -> tuple[Thresholds | None, ...] | None:
        """The law of fake values, as its thresholds realise it; None if it is uniform."""
        field = f"{name}/prior"
        if not self.read(field, lambda: "prior" in group):
            return None
        column = self.array(group, field, "i", (domain.total,)).tolist()
        rows: list[Thresholds | None] = []
        for j, columns in enumerate(domain.slices):
            row = column[columns]
            uniform = all(t == -1 for t in row)
            if not uniform and (row[-1] != KEEP_ONE or row[0] < 0 or sorted(row) != row):
                self.refuse(field, f"is {_short(row)} for attribute {j}; ascending thresholds up to 2**32 are needed")
            rows.append(None if uniform else tuple(row[:-1]))
        return tuple(rows)

    def check_scales(self, group: Any, name: str, spec: Spec, repetitions: range) -> None:
        """What xarray shows beside the counts is what the spec says."""
        protocols = self.texts(group, f"{name}/protocol", len(spec.protocols))
        epsilons = self.array(group, f"{name}/epsilon", "fiu", (len(spec.epsilons),))
        numbers = self.array(group, f"{name}/repetition", "iu", (len(repetitions),))
        for field, has, wanted in (
            ("protocol", protocols, spec.protocols),
            ("epsilon", tuple(epsilons.tolist()), spec.epsilons),
            ("repetition", tuple(numbers.tolist()), tuple(repetitions)),
        ):
            if has != wanted:
                self.refuse(f"{name}/{field}", f"is {_short(has)}, but spec says {_short(wanted)}")

    def check_counts(self, name: str, counts: Any, reporters: Any, users: int, domain: Domain) -> None:
        for field, numbers in (("counts", counts), ("reporters", reporters)):
            if numbers is not None and numbers.size and (least := numbers.min()) < 0:
                self.refuse(f"{name}/{field}", f"has {least}; numbers from 0 to users={users} are valid")
        if reporters is not None and reporters.max() > users:
            self.refuse(f"{name}/reporters", f"has {reporters.max()}; numbers from 0 to users={users} are valid")
        if counts is None:
            return
        for j, columns in enumerate(domain.slices):
            if (counts[..., columns].max(axis=-1) > reporters[..., j]).any():
                self.refuse(f"{name}/counts", f"has more reports of a value of attribute {j} than reporters")

    def frequencies(self, group: Any, name: str, domain: Domain) -> Any:
        field = f"{name}/frequency"
        frequencies = self.array(group, field, "f", (sum(domain),)).astype(np.float64)
        if not (np.isfinite(frequencies) & (frequencies >= 0) & (frequencies <= 1)).all():
            self.refuse(field, "has numbers outside 0 … 1")
        for j, columns in enumerate(domain.slices):
            if abs((total := float(frequencies[columns].sum())) - 1) > SUM_TOLERANCE:
                self.refuse(field, f"sums to {total:g} over attribute {j}; it must be 1")
        return frequencies


@dataclass(frozen=True)
class _Late:
    """Reads a large variable when it is asked for, from whatever file is at the path then."""

    path: Path
    name: str
    dataset: dict[str, Any]
    key: str
    field: str
    done: int

    def __call__(self) -> Any:
        with opened(self.path) as file:
            reader = Reader(self.path, file)
            document = reader.json("spec")
            spec = reader.spec(document)
            if key_of(document) != self.key:
                raise InputError(f"{self.path} holds another sweep than when it was opened")
            group = reader.read(self.name, lambda: file[self.name])
            head = reader.head(group, self.name, self.dataset, spec)
            return reader.repetitions(group, self.name, head, self.done, [self.field])[self.field]


def _number(value: object) -> TypeGuard[float]:
    return isinstance(value, float) or (_whole(value) and abs(value) < 2**63)


def _whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _encodable(text: str) -> bool:
    """No lone surrogates, which h5py and JSON let through, but no terminal or figure can show."""
    return not any("\ud800" <= c <= "\udfff" for c in text)


def _short(value: object) -> str:
    text = ascii(value).replace("\\n", " ")
    return text if len(text) <= 60 else f"{text[:57]}..."
