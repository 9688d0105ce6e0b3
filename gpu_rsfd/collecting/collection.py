"""A collection: all that clients and the aggregator must agree on, in one file without data; and the client itself.

The file is described in docs/collect.md.  Its integers are the mechanism: reading it back needs no registry.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import os
import re
import secrets
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gpu_rsfd.backends.literal import Block, User, send
from gpu_rsfd.checks import MAX_DOMAIN, MAX_USERS, MIN_DOMAIN, check_epsilon, integer
from gpu_rsfd.datasets.base import Dataset, check_text
from gpu_rsfd.datasets.options import check_options
from gpu_rsfd.datasets.table import exact_number, given_edges, interval_labels, read_domains, shorten
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError, heed_signals
from gpu_rsfd.files import open_regular, replace_file
from gpu_rsfd.protocols import Mechanism, PrivacySettings, Protocol, as_protocol, mechanisms
from gpu_rsfd.protocols.budgets import check_guarantee
from gpu_rsfd.protocols.designs import MOST_MESSAGES, hadamard, own_design
from gpu_rsfd.protocols.form import Recipe, Sets, Unsampled, noise_of
from gpu_rsfd.protocols.loss import losses
from gpu_rsfd.protocols.noise import bits_loss, keep_loss, sets_loss, ss_loss
from gpu_rsfd.protocols.priors import Prior
from gpu_rsfd.results.aggregate import Aggregate, Tally, check_told
from gpu_rsfd.tape import KEEP_ONE, LEVELS, scale

SCHEMA = "gpu-rsfd collection 1"
IDENTITY = re.compile(rb'"identity": "([0-9a-f]{64})"')
MOST_BYTES = 1 << 26  # of a collection's file
MOST_ENTRIES = 1 << 18  # of a table of message sets that a file holds
VECTORS, VECTOR_WORDS = (3, 20), 4_000  # fewest and most test vectors, and about how many words they have together
LOSSES = ("one_column", "any_two_users")  # users who differ in one column, in any
STATE = "gpu-rsfd state 1"
ENVELOPE = 4_096  # bytes of a line beside its report: identity, and what else whoever received it has added
DEEPEST = 16  # opening brackets in a line, which are never more in a report
BATCH_BYTES = 1 << 24  # of lines that are counted together, were they as long as they may be
SAME = 1e-9  # how far a loss may be from the one that is stated: another machine has other logarithms

Words = npt.NDArray[np.uint32]
T = TypeVar("T")
LOSS = {"keep": keep_loss, "sets": sets_loss, "bits": bits_loss, "subsets": ss_loss}


@dataclass(frozen=True)
class Column:
    """What is asked: a value of a list, or a number, of which the bin is taken."""

    name: str
    labels: tuple[str, ...]
    missing: str | None = None  # the label for whatever is not known
    bins: str | None = None  # as `0:18:65:120`: [low, high), the last one closed
    edges: tuple[float, ...] = ()

    @classmethod
    def of(cls, name: str, given: Any, missing: str | None) -> Column:
        """From a list of values, or from the edges of bins; with a label more if none is that for missing ones."""
        bins = given if isinstance(given, str) else None
        edges = [] if bins is None else given_edges(check_text("column", name), bins)
        if bins is not None and not edges:
            needed = "a collection needs edges, such as 0:18:65:120; others are data"
            raise InputError(f"bins of {name!r}={bins!r}: {needed}")
        row = interval_labels(edges) if edges else [*given] if isinstance(given, Iterable) else []
        row += [] if missing is None or missing in row else [missing]
        labels = tuple(check_text(f"a value of {name!r}", v if isinstance(v, str) else f"{v}") for v in row)
        if not MIN_DOMAIN <= len(labels) <= MAX_DOMAIN or len({*labels}) < len(labels):
            valid = f"{MIN_DOMAIN} to {MAX_DOMAIN:,}, all different"
            raise InputError(f"column {name!r} has {len(labels):,} values ({shorten(labels)}); valid: {valid}")
        return cls(name, labels, missing, bins, tuple(edges))

    def code(self, value: object) -> int:
        """The place of a value among the labels.  The message of an error does not repeat the value: it is secret."""
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if value is not None and text in self.labels:
            return self.labels.index(text)
        number = None if value is None else exact_number(text)
        if self.edges and number is not None and self.edges[0] <= number <= self.edges[-1]:
            return int(np.searchsorted(self.edges[1:-1], float(number), side="right"))
        if self.missing is not None:
            return self.labels.index(self.missing)
        valid = f"numbers from {self.edges[0]:g} to {self.edges[-1]:g}" if self.edges else shorten(self.labels)
        raise InputError(f"column {self.name!r} has no value, or none that the collection knows; valid: {valid}")

    def example(self, code: int) -> Any:
        """A value with this code: of a bin its lower edge, if it has one."""
        edge = self.edges[code] if code + 1 < len(self.edges) else math.inf
        return self.labels[code] if math.isinf(edge) else edge


class Collection:
    """A collection, as its file says.  Make one with `collection`, read one with `Collection.read`.

    Attributes
    ----------
    identity : str
        64 digits, which every report carries: the SHA-256 of the file, whose own 64 digits are zeros for it.
    title, protocol, guarantee, epsilon
        What it is called, and the promise.
    columns : tuple
        What is asked: name, labels, missing, edges.
    mechanisms : tuple of Mechanism
        How each column is randomised, from the integers of the file.
    losses : tuple of float
        The exact loss between users who differ in one column, and between any two.
    text : str
        The file.
    """

    def __init__(self, document: Mapping[str, Any], identity: str = "", content: bytes = b"") -> None:
        """From its integers: what else the document says is believed only by `read`, which checks it."""
        entries, self.identity, self.text = document["columns"], identity, content.decode()
        self.title, self.protocol = (check_text(key, document[key]) for key in ("title", "protocol"))
        self.guarantee, self.epsilon = check_guarantee(document["guarantee"]), check_epsilon(document["epsilon"])
        self.columns = tuple(Column.of(e["name"], e.get("bins") or e["labels"], e.get("missing")) for e in entries)
        self.names = tuple(column.name for column in self.columns)
        each = zip(entries, self.columns, strict=True)
        self.mechanisms = tuple(_read_mechanism(entry, len(entries), len(column.labels)) for entry, column in each)
        kinds = {(m.recipe.unsampled.samples, m.recipe.unsampled.hides) for m in self.mechanisms}
        alike = all([*column.labels] == entry["labels"] for entry, column in zip(entries, self.columns, strict=True))
        if len({*self.names}) < len(entries) or len(kinds) > 1 or not alike:
            raise InputError("two columns have the same name or different solutions, or labels do not fit their bins")
        self.losses = tuple(losses(self.mechanisms, [1, len(entries)]).tolist())
        self.words = 1 + sum(2 + m.recipe.unary * m.k for m in self.mechanisms)

    @classmethod
    def read(cls, path: str | os.PathLike[str], content: bytes | None = None) -> Collection:
        """Read a collection.

        Parameters
        ----------
        path : path
            A file that `save` or ``gpu-rsfd plan --save`` has written.
        content : bytes, optional
            What it holds, if it has been read already.

        Returns
        -------
        Collection

        Raises
        ------
        InputError
            If it is no collection, was altered or damaged, or its integers do not keep what it promises.
        """
        return unsealed(str(path), content, SCHEMA, lambda *sealed: cls(*sealed)._kept(sealed[0]))

    def _kept(self, document: Mapping[str, Any]) -> Collection:
        """The promise, the losses that are stated and the test vectors must be those of the integers."""
        bound = {"user": self.losses[1], "attribute": self.losses[0]}.get(self.guarantee, 0.0)
        if bound > self.epsilon * (1 + SAME):
            allowed = f"guarantee={self.guarantee} allows epsilon={self.epsilon:g}"
            raise InputError(f"{allowed}, but its integers lose {bound:.6g}")
        stated = [document["loss"][key] for key in LOSSES]
        if not np.allclose(stated, self.losses, rtol=SAME, atol=0):
            raise InputError(f"it states the losses {stated}, but its integers have {[*self.losses]}")
        for i, vector in enumerate(document["vectors"]):
            words = np.frombuffer(bytes.fromhex(vector["words"]), ">u4").astype(np.uint32)
            if len(words) != self.words or self.report(vector["record"], words) != vector["report"]:
                raise InputError(f"its test vector {i} does not follow from its integers")
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file; one that exists is replaced only by the same collection.

        Parameters
        ----------
        path : path
            Its name should end in .json.

        Raises
        ------
        InputError
            If something else is there.
        """
        if Path(path).exists() and Path(path).read_bytes() != self.text.encode():
            raise InputError(f"{path} exists and is another file; give another name")
        replace_file(Path(path), self.text.encode())

    def codes(self, record: Mapping[str, object]) -> list[int]:
        """The places of a record's values among the labels."""
        if not isinstance(record, Mapping):
            raise InputError(f"record is of type {type(record).__name__}; a value by column is needed, as in a dict")
        if unknown := [name for name in record if name not in self.names]:
            raise InputError(f"the collection has no column {unknown[0]!r}; columns: {shorten(self.names)}")
        return [column.code(record.get(column.name)) for column in self.columns]

    def report(self, record: Mapping[str, object], words: Words) -> list[Any]:
        """One user's report from random words; the literal reports of a simulation are made by the same code."""
        return next(self.reports([self.codes(record)], words[None]))

    def reports(self, codes: list[list[int]], words: Words) -> Any:
        """The reports of several users, `words` [user, word].

        The first word of a user chooses the column that is sampled.  Each column has two words, for the uniform value
        (or message) and for whether the value is kept, and one for each bit, of which the upper 24 binary digits count.
        """
        recipes, wide = [m.recipe for m in self.mechanisms], words.astype(np.uint64)
        drawn, bits, at = [], [], 1
        for m in self.mechanisms:
            drawn.append(wide[:, at] << np.uint64(32) | wide[:, at + 1])
            at += 2 + m.recipe.unary * m.k
            bits.append(words[:, at - m.k : at] >> np.uint32(32 - LEVELS))
        domain = Domain.of(m.k for m in self.mechanisms)
        block = Block(scale(wide[:, 0] << np.uint64(32), len(domain)), drawn, bits, domain, recipes)
        for i, values in enumerate(codes):
            sent = send(User(block, i), values, domain, recipes)
            entries = [(j, (y + 48).tobytes().decode() if recipes[j].unary else int(y)) for j, y in sent.items()]
            yield list(entries[0]) if recipes[0].unsampled is Unsampled.NOTHING else [entry for _, entry in entries]

    def __repr__(self) -> str:
        return f"Collection({self.title!r}, {self.protocol}, epsilon={self.epsilon:g}; identity {self.identity[:8]}…)"


class Client:
    """Randomises records: what a user's device runs.

    Every report spends the budget of the collection.  A user who reports twice spends it twice, whether or not the
    values are the same, and a report that must be sent again is to be kept and sent as it is, never made anew.  The
    random words are those of the operating system (`os.urandom`), and there is no seed.  How long `randomise` takes
    may depend on the values, which an observer who can time it may exploit.

    Parameters
    ----------
    collection : path or Collection
        The file.

    Raises
    ------
    InputError
        If the file was altered or damaged, or does not keep what it promises.

    Examples
    --------
    >>> columns = {"sex": ["female", "male"], "age": "0:18:65:120"}
    >>> asked = gpu_rsfd.collection(columns, "smp-grr", 1.0)
    >>> report = gpu_rsfd.Client(asked).randomise({"sex": "female", "age": 41})
    >>> sorted(report)
    ['collection', 'report']
    """

    def __init__(self, collection: Collection | str | os.PathLike[str]) -> None:
        self.collection = collection if isinstance(collection, Collection) else Collection.read(collection)

    def randomise(self, record: Mapping[str, object]) -> dict[str, Any]:
        """One report: spends the budget once for each call.

        Parameters
        ----------
        record : mapping of str to value
            The user's value of each column: a label, or a number for a column with bins.

        Returns
        -------
        dict
            To be sent as JSON: the collection's identity, and what is reported.

        Raises
        ------
        InputError
            If a column is missing, or has a value that is not among its labels or in its bins, and the collection
            declares no value for missing ones.  The message does not repeat the value.
        """
        words = np.frombuffer(os.urandom(4 * self.collection.words), "<u4").astype(np.uint32)
        return {"collection": self.collection.identity, "report": self.collection.report(record, words)}


def collection(
    columns: Mapping[str, Any], protocol: str | Protocol, epsilon: float, *, guarantee: str = "user",
    missing: str | Mapping[str, str] | None = None, prior: object = None, title: str = "",
) -> Collection:  # fmt: skip
    """Declare a collection, without data.

    Parameters
    ----------
    columns : mapping of str to list or str
        The valid values of each column, as a list of texts; or the edges of its bins, such as `0:18:65:120`, for
        numbers.
    protocol : str or Protocol
        Name of a protocol, or a user-defined protocol.
    epsilon : float
        The total budget.
    guarantee : {'user', 'attribute', 'paper'}
        What epsilon bounds.
    missing : str or mapping of str to str, optional
        The value that stands for a missing one, or one that is not valid: of every column, or by column.  It is added
        to the values if it is not among them.  Default: the client raises an error.
    prior : str or frequencies, optional
        The distribution of the fake values of RS+RFD: `uniform`, `zipf:S`, or a list of frequencies for each column.
    title : str
        What the collection is called.  Two collections that differ in nothing else refuse each other's reports.

    Returns
    -------
    Collection
        To be saved by `save`, and used by `Client`.

    Raises
    ------
    InputError
        If something is not valid, or no client can run the protocol.

    Examples
    --------
    >>> columns = {"sex": ["female", "male"], "age": "0:18:65:120"}
    >>> asked = gpu_rsfd.collection(columns, "smp-grr", 1.0, missing="none")
    >>> [column.labels for column in asked.columns]
    [('female', 'male', 'none'), ('[0, 18)', '[18, 65)', '[65, 120]', 'none')]
    """
    if not isinstance(columns, Mapping) or not columns:
        raise InputError("columns must map each column to its values, or to the edges of its bins")
    chosen, gaps = as_protocol(protocol), missing if isinstance(missing, Mapping) else dict.fromkeys(columns, missing)
    if lost := [name for name in gaps if name not in columns]:
        raise InputError(f"missing names {lost[0]!r}, which is no column; columns: {shorten(map(str, columns))}")
    asked = [Column.of(name, given, gaps.get(name)) for name, given in columns.items()]
    domain = Domain.of(len(column.labels) for column in asked)
    if prior is not None and not chosen.prior:
        raise InputError(f"prior={prior!r} is for RS+RFD; {chosen} has no prior")
    settings = PrivacySettings(priors=Prior.of(prior).thresholds(domain), guarantee=check_guarantee(guarantee))
    ms = mechanisms(chosen, check_epsilon(epsilon), domain, settings)
    if chosen.memoised or not all(m.plain for m in ms):
        why = "is one report of several, which a client must remember" if chosen.memoised else "sends hashes"
        raise InputError(f"{chosen} {why}: there is no client for it; choose another one, such as smp-adp or smp-ss")
    entries = [_entry(column, m) for column, m in zip(asked, ms, strict=True)]
    document: dict[str, Any] = {
        "schema": SCHEMA, "identity": "0" * 64, "title": check_text("title", title), "protocol": chosen.name,
        "guarantee": guarantee, "epsilon": float(epsilon), "loss": {}, "words": 0, "columns": entries, "vectors": [],
    }  # fmt: skip
    made = Collection(document)
    document["loss"] = dict(zip(LOSSES, made.losses, strict=True))
    document["words"] = made.words
    document["vectors"] = list(_vectors(made, int(_identity(sealed(document))[:16], 16)))
    return Collection.read("the collection", sealed(document))


def declared(data: Dataset, protocol: str | Protocol, epsilon: float, guarantee: str, prior: Prior) -> Collection:
    """The collection of what was planned for a data set: from its declared domain, never from what it holds."""
    columns, missing, origin = dict[str, Any](), dict[str, str](), dict(data.origin[1] if data.origin else {})
    options = check_options({key: origin[key] for key in origin if key != "name"})
    domains = read_domains(options["domain_file"]) if options["domain_file"] else {}
    for j, name in enumerate(data.names):
        labels = list(data.labels[j]) if data.labels else [*map(str, range(data.domain[j]))]
        columns[name] = given = options["bins"].get(name, domains.get(name, labels if data.origin is None else None))
        if given is None:
            helps = f"declare them (--domain-file, or edges: --bins {name}=0:18:65:inf) before a collection is saved"
            raise InputError(f"the values of {name!r} are what the table holds; {helps}")
        known = interval_labels(given_edges(name, given)) if isinstance(given, str) else given
        missing |= {name: labels[-1]} if labels[-1] not in known else {}
    fakes = prior.plain if as_protocol(protocol).prior else None
    return collection(columns, protocol, epsilon, guarantee=guarantee, missing=missing, prior=fakes, title=data.name)


# ----------------------------------------------------------------------------------------------------------- the file


def sealed(document: Mapping[str, Any]) -> bytes:
    """JSON with its identity."""
    content = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    return content.replace(b"0" * 64, _identity(content).encode(), 1)


def unsealed(where: str, content: bytes | None, schema: str, made: Callable[..., T]) -> T:
    """What is made of a sealed document, its identity and its bytes; whatever is wrong with it is one line."""
    try:
        if content is None:
            with open_regular(Path(where)) as file:
                content = file.read(MOST_BYTES + 1)
        found = IDENTITY.search(content)
        document = json.loads(content.decode()) if found and len(content) <= MOST_BYTES else {}
        if found is None or document.get("schema") != schema:
            raise InputError(f"it is not a {schema!r}, which is what this version of gpu-rsfd reads")
        if (digest := _identity(content)) != (identity := found[1].decode()):
            raise InputError(f"it was altered or damaged: its identity is {identity}, that of its content {digest}")
        return made(document, identity, content)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, OSError) as error:
        why = f"it lacks {error}" if isinstance(error, KeyError) else getattr(error, "strerror", None) or error
        raise InputError(f"{where} can't be used: {why}") from None


def _identity(content: bytes) -> str:
    """The SHA-256 of a file, with zeros for the 64 digits that say it."""
    return hashlib.sha256(IDENTITY.sub(b'"identity": "' + b"0" * 64 + b'"', content, count=1)).hexdigest()


def _entry(column: Column, m: Mechanism) -> dict[str, Any]:
    """A column as the file has it."""
    noise, sets = m.recipe.noise, None
    if isinstance(noise, Sets) and noise.design.digest:
        if (count := noise.design.size * m.k) > MOST_ENTRIES:
            valid = f"a collection's file holds {MOST_ENTRIES:,}: choose another protocol, such as those with hr"
            raise InputError(f"column {column.name!r} needs a table of {count:,} messages, but {valid}")
        sets = [row.tolist() for row in noise.design.sets(m.k)]
    entry = {
        "name": column.name, "labels": [*column.labels], "bins": column.bins, "missing": column.missing,
        "mechanism": m.name, "budget": m.budget, "noise": noise.kind, "integers": noise.integers, "sets": sets,
        "others": m.recipe.unsampled.value, "prior": m.recipe.prior,
    }  # fmt: skip
    return {key: value for key, value in entry.items() if value is not None}


def _read_mechanism(entry: Mapping[str, Any], d: int, k: int) -> Mechanism:
    """The integers of a column, checked, and what follows from them."""
    noise = noise_of(entry["noise"], [integer("integers", i, 0, 2**63) for i in entry["integers"]])
    if isinstance(noise, Sets) and "sets" in entry:
        table = own_design([[*map(int, row)] for row in entry["sets"]])
        if len(entry["sets"]) != k or not table.messages <= noise.design.messages <= MOST_MESSAGES:
            raise InputError(f"the message sets of {entry['name']!r} do not fit its labels and integers")
        noise = replace(noise, design=replace(noise.design, size=table.size, shared=table.shared, source=table.table))
    elif isinstance(noise, Sets) and noise.design != hadamard(k):
        raise InputError(f"{entry['name']!r} lacks its message sets")
    prior = tuple(integer("prior", t, 0, KEEP_ONE) for t in entry["prior"]) if "prior" in entry else None
    rising = not prior or (len(prior) == k - 1 and all(a <= b for a, b in pairwise(prior)))
    if not 0 < noise.q(k) < noise.p(k) < 1 or not rising:
        raise InputError(f"the integers of {entry['name']!r} are no mechanism")
    budget, recipe = float(entry["budget"]), Recipe(Unsampled(entry["others"]), noise, prior)
    loss = LOSS[noise.kind](noise, budget, k)
    return Mechanism(str(entry["mechanism"]), d, k, budget, recipe, budget, loss, math.nan)


def _vectors(made: Collection, seed: int) -> Any:
    """Random words, most of them at a threshold or just below it, and the reports that follow from them."""
    random, d = np.random.Generator(np.random.Philox(key=seed)), len(made.columns)
    cuts: list[tuple[int, ...]] = []  # of each word
    for m in made.mechanisms:
        first, *rest = m.recipe.noise.integers
        cuts += [m.recipe.prior or (), () if m.recipe.unary else (first,)]
        cuts += [tuple(t << 32 - LEVELS for t in (first, *rest) if t > m.k)] * m.k * m.recipe.unary
    for i in range(min(max(VECTORS[0], VECTOR_WORDS // made.words), VECTORS[1])):
        words = [-(-(i % d) * KEEP_ONE // d)]  # the least that samples this column
        for each in cuts:
            near = int(random.choice(each)) - int(random.integers(2)) if each else -1
            words.append(near if 0 <= near < KEEP_ONE else int(random.integers(KEEP_ONE)))
        record = {c.name: c.example((i // d + j) % len(c.labels)) for j, c in enumerate(made.columns)}
        report = made.report(record, np.array(words, np.uint32))
        yield {"record": record, "words": np.array(words, ">u4").tobytes().hex(), "report": report}


# ----------------------------------------------------------------------------------------------------- the aggregator


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("a key is given twice")
    return found


DECODER = json.JSONDecoder(object_pairs_hook=_unique)


class State(Tally):
    """Counts of the reports of a collection, without the reports, and without anybody's identifier.

    Parameters
    ----------
    collection : path or Collection
        What is collected; a report of another collection is never used.
    id : str, optional
        The key under which whoever received the reports has added the user's identifier.  Only the first report of
        a user is used.  Identifiers are kept as keyed hashes, 8 bytes each, in memory alone: who reports once before a
        state is saved and once afterwards is not noticed.

    Attributes
    ----------
    n : int
        Reports that were used.
    bad : Counter
        Lines that were left out, by reason.

    Examples
    --------
    >>> asked = gpu_rsfd.collection({"sex": ["female", "male"]}, "spl-grr", 2.0)
    >>> client, state = gpu_rsfd.Client(asked), gpu_rsfd.State(asked)
    >>> with open("reports.jsonl", "w") as file:
    ...     for _ in range(500):
    ...         print(json.dumps(client.randomise({"sex": "male"})), file=file)
    >>> state.add("reports.jsonl")
    >>> state.aggregate()
    Aggregate(500 reports of spl-grr, epsilon=2, guarantee=user, d=1; 95 % intervals for these users)
    """

    def __init__(self, collection: Collection | str | os.PathLike[str], id: str | None = None) -> None:
        self.collection = collection if isinstance(collection, Collection) else Collection.read(collection)
        super().__init__(self.collection.mechanisms, self.collection.names, "count")
        self.runs: list[str] = []  # of which the counts are: none is added twice
        self.longest = ENVELOPE + sum(m.k + 4 if m.recipe.unary else 12 for m in self.ms)
        self._id, self._key, self._seen = id, secrets.token_bytes(32), np.empty(0, np.uint64)
        self._own = secrets.token_hex(8)

    def add(self, path: str | os.PathLike[str], opened: Callable[..., Any] = open) -> None:
        """Count the reports of a file, a line each.

        Parameters
        ----------
        path : path
            JSON lines, packed if the name ends in .gz; `-` is standard input.
        opened : callable
            What opens the file, such as `rich.progress.open`.

        Raises
        ------
        InputError
            If the file can't be read to its end: this object is then of no use.
        """
        try:
            with sys.stdin.buffer if str(path) == "-" else opened(path, "rb") as file:
                source: Any = gzip.GzipFile(fileobj=file) if str(path).endswith(".gz") else file
                lines = _lines(_stream := io.BufferedReader(source, 1 << 20), self.longest)
                while batch := list(islice(lines, max(1, BATCH_BYTES // self.longest))):
                    heed_signals()
                    self._take([self._read(line) for line in batch])
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path} can't be read to its end: {getattr(error, 'strerror', None) or error}") from None

    def _take(self, read: list[str | tuple[list[Any], int]]) -> None:
        self.bad.update(reason for reason in read if isinstance(reason, str))
        found = [report for report in read if not isinstance(report, str)]
        if self._id is not None:
            hashes, first = np.unique(np.array([user for _, user in found], np.uint64), return_index=True)
            fresh = np.sort(first[~np.isin(hashes, self._seen)]).tolist()
            self._seen = np.union1d(self._seen, hashes)
            self.bad.update(["of a user who has reported before"] * (len(found) - len(fresh)))
            found = [found[i] for i in fresh]
        if found:
            self._add_users([report for report, _ in found], 0)
            self.runs += [] if self._own in self.runs else [self._own]

    def _read(self, line: bytes) -> str | tuple[list[Any], int]:
        """A report, which nothing but whole numbers and bits gets into, and the hash of its user; or what is wrong."""
        if len(line) > self.longest or line.count(b"[") + line.count(b"{") > DEEPEST:
            return "too long, or with too many brackets"
        try:
            found = DECODER.decode(line.decode())
        except (ValueError, RecursionError):
            return "not JSON"
        if type(found) is not dict or type(report := found.get("report")) is not list:
            return "not a report"
        if found.get("collection") != self.collection.identity:
            return "of another collection"
        places, entries = (report[:1], report[1:]) if self.partial else (range(len(self.ms)), report)
        if len(report) != (2 if self.partial else len(self.ms)) or not all(map(self._fits, places, entries)):
            return "not made by a client"
        user = 0 if self._id is None else found.get(self._id)
        if type(user) not in (str, int) or user == "":
            return "without the user's identifier"
        digest = hashlib.blake2b(repr(user).encode("utf-8", "surrogatepass"), digest_size=8, key=self._key).digest()
        sent = [np.frombuffer(y.encode(), np.uint8) - 48 if type(y) is str else y for y in report]
        return sent, int.from_bytes(digest, "little")

    def _fits(self, j: Any, entry: Any) -> bool:
        if type(j) is not int or not 0 <= j < len(self.ms):
            return False
        if (messages := self.messages[j]) is not None:
            return type(entry) is int and 0 <= entry < messages
        digits = type(entry) is str and len(entry) == self.ms[j].k and not entry.strip("01")
        return digits and self.sizes[j] in (None, entry.count("1"))

    def aggregate(self, against: str = "users", level: float = 0.95) -> Aggregate:
        """Estimates with intervals from all reports so far.

        Parameters
        ----------
        against : {'users', 'population'}
            As in `gpu_rsfd.aggregate`.
        level : float
            The confidence level of each interval, for each value by itself.

        Returns
        -------
        Aggregate

        Raises
        ------
        InputError
            If no report could be used.
        """
        check_told(against, level)
        if not self.n:
            raise InputError(f"no report could be used; left out: {self.left_out or 'none'}")
        asked = self.collection
        told = asked.protocol, asked.epsilon, asked.guarantee, Domain.of(m.k for m in self.ms), asked.names
        return Aggregate.of((*told, tuple(column.labels for column in asked.columns)), self, self.ms, against, level)

    @property
    def left_out(self) -> str:
        """The lines that were not used, by reason, in words."""
        return ", ".join(f"{count:,} {reason}" for reason, count in self.bad.most_common())

    def __add__(self, other: State) -> State:
        """Both together; of one collection, and with no report in common."""
        if self.collection.identity != other.collection.identity:
            raise InputError(f"states of two collections can't be added: {self.collection!r}, {other.collection!r}")
        both = State(self.collection, self._id)
        both._gain(self.n, self.bad, self.runs, self._counts)
        return both._gain(other.n, other.bad, other.runs, other._counts)

    @property
    def _counts(self) -> list[Any]:
        return [*self.heard, self.reporters, self.squares]

    def _gain(self, n: int, bad: Mapping[str, int], runs: list[str], counts: list[Any]) -> State:
        if {*self.runs} & {*runs}:
            raise InputError("a state is there twice: it is already part of the other one")
        self.n, self.runs = self.n + n, [*self.runs, *runs]
        self.bad.update(bad)
        for mine, more in zip(self._counts, counts, strict=True):
            mine += np.array(more, mine.dtype)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counts and their collection, but no report and no identifier."""
        document = {
            "schema": STATE, "identity": "0" * 64, "reports": self.n, "bad": self.bad, "runs": self.runs,
            "counts": [column.astype(int).tolist() for column in self._counts], "collection": self.collection.text,
        }  # fmt: skip
        replace_file(Path(path), sealed(document))

    @classmethod
    def read(cls, path: str | os.PathLike[str], id: str | None = None) -> State:
        """Read counts that were saved, to be continued or added to others."""

        def made(document: dict[str, Any], *_: Any) -> State:
            state = cls(Collection.read(f"the collection in {path}", document["collection"].encode()), id)
            counts = [[integer("counts", n, 0, 2**62) for n in column] for column in document["counts"]]
            bad = {str(why): integer("bad", n, 0, MAX_USERS) for why, n in document["bad"].items()}
            runs = [*map(str, document["runs"])]
            return state._gain(integer("reports", document["reports"], 0, MAX_USERS), bad, runs, counts)

        return unsealed(str(path), None, STATE, made)


def _lines(file: Any, longest: int) -> Iterator[bytes]:
    """Lines, those that are too long cut, whose rest is skipped."""
    while line := file.readline(longest + 1):
        rest = line
        while len(rest) > longest and not rest.endswith(b"\n"):
            rest = file.readline(longest + 1)
        if line.strip():
            yield line
