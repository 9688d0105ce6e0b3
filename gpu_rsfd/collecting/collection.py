"""A collection: all that clients and the aggregator must agree on, in one file without data; and the client itself.

The file is described in docs/collect.md.  Its integers are the mechanism: reading it back needs no registry.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from json import dumps
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.backends.literal import Block, User, send
from gpu_rsfd.checks import MAX_DOMAIN, MIN_DOMAIN, check_epsilon, integer
from gpu_rsfd.datasets.base import check_labels, check_text
from gpu_rsfd.datasets.table import exact_number, given_edges, interval_labels, shorten
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.files import open_regular, replace_file
from gpu_rsfd.protocols import Mechanism, PrivacySettings, Protocol, as_protocol, mechanisms
from gpu_rsfd.protocols.budgets import check_guarantee
from gpu_rsfd.protocols.designs import MOST_MESSAGES, hadamard, own_design
from gpu_rsfd.protocols.form import Bits, Keep, Noise, Recipe, Sets, Subsets, Unsampled
from gpu_rsfd.protocols.loss import losses
from gpu_rsfd.protocols.noise import bits_loss, keep_loss, sets_loss, ss_loss
from gpu_rsfd.protocols.priors import Prior
from gpu_rsfd.tape import KEEP_ONE, LEVELS, ONE, scale

SCHEMA = "gpu-rsfd collection 1"
IDENTITY = re.compile(rb'"identity": "([0-9a-f]{64})"')
MOST_BYTES = 1 << 26  # of a collection's file
MOST_ENTRIES = 1 << 18  # of a table of message sets that a file holds
VECTORS, VECTOR_WORDS = (3, 20), 4_000  # fewest and most test vectors, and about how many words they have together
SAME = 1e-9  # how far a loss may be from the one that is stated: another machine has other logarithms

Words = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Column:
    """What is asked: a value of a list, or a number, of which the bin is taken."""

    name: str
    labels: tuple[str, ...]
    missing: str | None = None  # the label for whatever is not known
    edges: tuple[float, ...] | None = None  # of bins [low, high), the last one closed

    @cached_property
    def _by_text(self) -> dict[str, int]:
        return {label: code for code, label in enumerate(self.labels)}

    def code(self, value: object) -> int:
        """The place of a value among the labels.  The message of an error does not repeat the value: it is secret."""
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if value is not None and text in self._by_text:
            return self._by_text[text]
        number = None if value is None else exact_number(text)
        if self.edges and number is not None and self.edges[0] <= number <= self.edges[-1]:
            return int(np.searchsorted(self.edges[1:-1], float(number), side="right"))
        if self.missing is not None:
            return self._by_text[self.missing]
        if value is None:
            raise InputError(f"column {self.name!r} has no value, and the collection declares none for missing ones")
        valid = f"a number from {self.edges[0]:g} to {self.edges[-1]:g}" if self.edges else shorten(self.labels)
        raise InputError(f"column {self.name!r} has a value that the collection does not know; valid: {valid}")

    def example(self, code: int) -> Any:
        """A value with this code: of a bin its lower edge, if it has one."""
        if self.labels[code] == self.missing:
            return None
        if self.edges is None:
            return self.labels[code]
        low, high = self.edges[code : code + 2]
        return _plain(low if math.isfinite(low) else high - 1)


@dataclass(frozen=True, eq=False, repr=False)
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

    title: str
    protocol: str
    guarantee: str
    epsilon: float
    columns: tuple[Column, ...]
    mechanisms: tuple[Mechanism, ...]
    losses: tuple[float, float]
    text: str = field(default="")
    identity: str = field(default="")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Collection:
        """Read a collection.

        Parameters
        ----------
        path : path
            A file that `save` or ``gpu-rsfd plan --save`` has written.

        Returns
        -------
        Collection

        Raises
        ------
        InputError
            If it is no collection, was altered or damaged, or its integers do not keep what it promises.
        """
        try:
            with open_regular(Path(path)) as file:
                content = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise InputError(f"{path} can't be read: {error.strerror}") from None
        return cls.parse(content, str(path))

    @classmethod
    def parse(cls, content: bytes, where: str) -> Collection:
        """From the bytes of a file, all of which are checked."""
        found = IDENTITY.search(content)
        try:
            document = json.loads(content.decode()) if found and len(content) <= MOST_BYTES else {}
            if found is None or document.get("schema") != SCHEMA:
                raise InputError(f"{where} is not a collection of this version ({SCHEMA!r})")
            identity, digest = found[1].decode(), _identity(content)
            if digest != identity:
                raise InputError(f"{where} was altered or damaged: its identity is {identity}, its content's {digest}")
            made = replace(cls.of(document), text=content.decode(), identity=identity)
            made._keeps_its_word(document)
        except InputError as error:
            raise InputError(str(error) if where in str(error) else f"{where} can't be used: {error}") from None
        except KeyError as error:
            raise InputError(f"{where} can't be used: it lacks {error}") from None
        except (ValueError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError) as error:
            raise InputError(f"{where} can't be used: {error}") from None
        return made

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Collection:
        """From its integers: nothing else that the document says is believed."""
        entries = document["columns"]
        d, columns = len(entries), tuple(map(_read_column, entries))
        domain = Domain.of(len(column.labels) for column in columns)
        if len({column.name for column in columns}) < d:
            raise InputError("two columns have the same name")
        ms = tuple(_read_mechanism(entry, d, k) for entry, k in zip(entries, domain, strict=True))
        if len({(m.recipe.unsampled.samples, m.recipe.unsampled.hides) for m in ms}) > 1:
            raise InputError("its columns are of different solutions")
        one, every = map(float, losses(ms, [1, d]))
        title, protocol = (check_text(key, document[key]) for key in ("title", "protocol"))
        guarantee, epsilon = check_guarantee(document["guarantee"]), check_epsilon(document["epsilon"])
        return cls(title, protocol, guarantee, epsilon, columns, ms, (one, every))

    def _keeps_its_word(self, document: Mapping[str, Any]) -> None:
        """The promise, the losses that are stated and the test vectors must be those of the integers."""
        bound = {"user": self.losses[1], "attribute": self.losses[0]}.get(self.guarantee, 0.0)
        if bound > self.epsilon * (1 + SAME):
            raise InputError(
                f"its integers lose {bound:.6g}, more than epsilon={self.epsilon:g} under guarantee={self.guarantee}"
            )
        stated = document["loss"]["one_column"], document["loss"]["any_two_users"]
        if not all(math.isclose(a, b, rel_tol=SAME) for a, b in zip(stated, self.losses, strict=True)):
            raise InputError(f"it states the losses {stated}, but its integers have {self.losses}")
        for i, vector in enumerate(document["vectors"]):
            words = np.array([integer("word", word, 0, KEEP_ONE - 1) for word in vector["words"]], np.uint32)
            if len(words) != self.words or self.report(self.codes(vector["record"]), words) != vector["report"]:
                raise InputError(f"its test vector {i} does not follow from its integers")

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
        target = Path(path)
        if target.exists() and (not target.is_file() or target.read_bytes() != self.text.encode()):
            raise InputError(f"{path} exists and is another collection, or none; give another name")
        replace_file(target, self.text.encode())

    # ------------------------------------------------------------------------------------------------- the client

    @cached_property
    def words(self) -> int:
        """How many 32-bit random words a report is made from."""
        return 1 + sum(2 + m.recipe.unary * m.k for m in self.mechanisms)

    def codes(self, record: Mapping[str, object]) -> list[int]:
        """The places of a record's values among the labels."""
        if not isinstance(record, Mapping):
            raise InputError(f"a record is of type {type(record).__name__}; a mapping of columns to values is needed")
        if unknown := [name for name in record if name not in [column.name for column in self.columns]]:
            names = shorten(column.name for column in self.columns)
            raise InputError(f"the collection has no column {unknown[0]!r}; columns: {names}")
        return [column.code(record.get(column.name)) for column in self.columns]

    def report(self, codes: Sequence[int], words: Words) -> list[Any]:
        """One user's report from random words; the literal reports of a simulation are made by the same code."""
        return next(self.reports([list(codes)], words[None]))

    def reports(self, codes: list[list[int]], words: Words) -> Any:
        """The reports of several users, `words` [user, word].

        The first word of a user is for the column that is sampled; two are for each column, the uniform value (or
        message) and the keep draw; then follows one for each bit, of which the upper 24 digits count.
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
            yield list(entries[0]) if self.partial else [entry for _, entry in entries]

    @property
    def partial(self) -> bool:
        """Whether a report is of the sampled column alone."""
        return self.mechanisms[0].recipe.unsampled is Unsampled.NOTHING

    def __repr__(self) -> str:
        promise = f"{self.protocol}, epsilon={self.epsilon:g}, guarantee={self.guarantee}"
        return f"Collection({self.title!r}, {promise}, d={len(self.columns)}; identity {self.identity[:8]}…)"


class Client:
    """Randomises records: what a user's device runs.

    Every report spends the budget of the collection.  **A user who reports twice spends it twice**, whether or not the
    values are the same, and a report that must be sent again is to be kept and sent as it is, never made anew.  The
    random words are those of the operating system (`os.urandom`), and there is no seed.  How long `randomise` takes
    may depend on the values: who can time it is not guarded against.

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
    >>> asked = gpu_rsfd.collection({"sex": ["female", "male"], "age": "0:18:65:120"}, "smp-grr", 1.0)
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
        codes = self.collection.codes(record)
        words = np.frombuffer(os.urandom(4 * self.collection.words), "<u4").astype(np.uint32)
        return {"collection": self.collection.identity, "report": self.collection.report(codes, words)}


def collection(
    columns: Mapping[str, Any],
    protocol: str | Protocol,
    epsilon: float,
    *,
    guarantee: str = "user",
    missing: str | Mapping[str, str] | None = None,
    prior: object = None,
    title: str = "",
) -> Collection:
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
    >>> asked = gpu_rsfd.collection({"sex": ["female", "male"], "age": "0:18:65:120"}, "smp-grr", 1.0, missing="none")
    >>> [column.labels for column in asked.columns]
    [('female', 'male', 'none'), ('[0, 18)', '[18, 65)', '[65, 120]', 'none')]
    """
    if not isinstance(columns, Mapping) or not columns:
        raise InputError("columns must map each column to its values, or to the edges of its bins")
    chosen, gaps = as_protocol(protocol), missing if isinstance(missing, Mapping) else dict.fromkeys(columns, missing)
    if lost := [name for name in gaps if name not in columns]:
        raise InputError(f"missing names {lost[0]!r}, which is no column; columns: {shorten(map(str, columns))}")
    asked = [_asked(check_text("column", name), given, gaps.get(name)) for name, given in columns.items()]
    domain = Domain.of(len(column.labels) for column in asked)
    fakes = Prior.of(prior)
    if prior is not None and not chosen.prior:
        raise InputError(f"prior={fakes.short} is for RS+RFD; {chosen} has no prior")
    settings = PrivacySettings(priors=fakes.thresholds(domain), guarantee=check_guarantee(guarantee))
    ms = mechanisms(chosen, check_epsilon(epsilon), domain, settings)
    if chosen.memoised or not all(m.plain for m in ms):
        why = "is one report of several, which a client must remember" if chosen.memoised else "sends hashes"
        raise InputError(f"{chosen} {why}: there is no client for it; choose another one, such as smp-adp or smp-ss")
    entries = [_column_entry(column, m) for column, m in zip(asked, ms, strict=True)]
    document: dict[str, Any] = {
        "schema": SCHEMA, "identity": "0" * 64, "title": check_text("title", title), "protocol": chosen.name,
        "guarantee": guarantee, "epsilon": float(epsilon), "loss": {}, "words": 0, "columns": entries, "vectors": [],
    }  # fmt: skip
    made = Collection.of(document)
    document["loss"] = dict(zip(("one_column", "any_two_users"), made.losses, strict=True))
    document["words"] = made.words
    document["vectors"] = list(_vectors(made, int(_identity(_text(document).encode())[:16], 16)))
    content = _text(document).encode()
    return Collection.parse(content.replace(b"0" * 64, _identity(content).encode(), 1), "the collection")


# ----------------------------------------------------------------------------------------------------------- the file


def _text(document: Mapping[str, Any]) -> str:
    """JSON with a line for each column and vector."""
    lines = []
    for key, value in document.items():
        if isinstance(value, list):
            rows = ",\n".join(f"  {dumps(row, ensure_ascii=False, allow_nan=False)}" for row in value)
            lines.append(f' "{key}": [\n{rows}\n ]')
        else:
            lines.append(f' "{key}": {dumps(value, ensure_ascii=False, allow_nan=False)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _identity(content: bytes) -> str:
    """The SHA-256 of a file, with zeros for the 64 digits that say it."""
    return hashlib.sha256(IDENTITY.sub(b'"identity": "' + b"0" * 64 + b'"', content, count=1)).hexdigest()


def _plain(number: float) -> int | float | None:
    """As JSON has it: None for an edge that lies nowhere."""
    return None if math.isinf(number) else int(number) if number.is_integer() else number


def _asked(name: str, given: Any, missing: str | None) -> Column:
    """A column from a list of values, or from the edges of bins."""
    edges = given_edges(name, given) if isinstance(given, str) else None
    if edges == []:
        raise InputError(f"bins of {name!r}={given!r}: a collection needs edges, such as 0:18:65:120; others are data")
    labels = interval_labels(edges) if edges else _labels(name, given)
    more = () if missing is None or missing in labels else (check_text("missing", missing),)
    return Column(name, _labels(name, (*labels, *more), MIN_DOMAIN), missing, tuple(edges) if edges else None)


def _labels(name: str, given: Any, least: int = 1) -> tuple[str, ...]:
    """Different texts, at least so many."""
    row = [*given] if isinstance(given, Iterable) and not isinstance(given, (str, Mapping)) else []
    if not least <= len(row) <= MAX_DOMAIN:
        raise InputError(f"column {name!r} has {len(row):,} values; valid: a list of {MIN_DOMAIN} to {MAX_DOMAIN:,}")
    try:
        return check_labels([row], [len(row)])[0]
    except InputError as error:
        raise InputError(f"column {name!r}: {str(error).replace('labels[0]', 'labels')}") from None


def _column_entry(column: Column, m: Mechanism) -> dict[str, Any]:
    noise = m.recipe.noise
    entry: dict[str, Any] = {"name": column.name, "labels": list(column.labels)}
    entry |= {} if column.edges is None else {"edges": list(map(_plain, column.edges))}
    entry |= {} if column.missing is None else {"missing": column.missing}
    entry |= {"mechanism": m.name, "budget": m.budget, "noise": noise.kind, "integers": list(noise.integers)}
    if isinstance(noise, Sets):
        design, entry["integers"] = noise.design, [noise.threshold, noise.design.messages]
        if design.digest and design.size * m.k > MOST_ENTRIES:
            raise InputError(
                f"column {column.name!r} needs a table of {design.size * m.k:,} messages; a collection's file holds at "
                f"most {MOST_ENTRIES:,}: choose another protocol, such as those with hr"
            )
        entry["sets"] = [row.tolist() for row in design.sets(m.k)] if design.digest else "hadamard"
    entry["others"] = m.recipe.unsampled.value
    return entry | ({} if m.recipe.prior is None else {"prior": list(m.recipe.prior)})


def _read_column(entry: Mapping[str, Any]) -> Column:
    name, missing = check_text("name", entry["name"]), entry.get("missing")
    labels = _labels(name, entry["labels"], MIN_DOMAIN)
    edges = None
    if "edges" in entry:
        first, *inner, last = entry["edges"]
        ends = -math.inf if first is None else float(first), math.inf if last is None else float(last)
        edges = (ends[0], *map(float, inner), ends[1])
        if not all(a < b for a, b in pairwise(edges)):
            raise InputError(f"the edges of {name!r} do not rise")
    bins = len(labels) if edges is None else len(edges) - 1 + (missing is not None and missing == labels[-1])
    if len(labels) != bins or missing not in (None, *labels):
        raise InputError(f"the labels of {name!r} do not fit its edges, or its value for missing ones")
    return Column(name, labels, missing, edges)


def _read_mechanism(entry: Mapping[str, Any], d: int, k: int) -> Mechanism:
    """The integers of a column, checked, and what follows from them."""
    noise, loss = _read_noise(entry, k)
    prior = tuple(integer("prior", t, 0, KEEP_ONE) for t in entry["prior"]) if "prior" in entry else None
    if not noise.informative or (prior is not None and (len(prior) != k - 1 or list(prior) != sorted(prior))):
        raise InputError(f"the integers of {entry['name']!r} are no mechanism")
    recipe = Recipe(Unsampled(entry["others"]), noise, prior)
    budget = float(entry["budget"])
    return Mechanism(str(entry["mechanism"]), d, k, budget, recipe, budget, loss(noise, budget, k), math.nan)


def _read_noise(entry: Mapping[str, Any], k: int) -> tuple[Noise, Any]:
    """A noise, and the function of its loss."""
    first, *rest = entry["integers"]
    match entry["noise"], rest:
        case Keep.kind, []:
            return Keep(integer("threshold", first, 0, KEEP_ONE - 1)), keep_loss
        case Sets.kind, [messages]:
            table = [[*map(int, row)] for row in entry["sets"]] if entry["sets"] != "hadamard" else None
            design = hadamard(k) if table is None else own_design(table)
            if (table is not None and len(table) != k) or not design.messages <= messages <= MOST_MESSAGES:
                raise InputError(f"the message sets of {entry['name']!r} do not fit its labels")
            design = design if table is None else replace(design, messages=messages)
            return Sets(integer("threshold", first, 0, KEEP_ONE - 1), design), sets_loss
        case Bits.kind, [tq]:
            return Bits(integer("tp", first, 1, ONE - 1), integer("tq", tq, 1, ONE - 1)), bits_loss
        case Subsets.kind, [size]:
            return Subsets(integer("tp", first, 0, ONE - 1), integer("size", size, 1, k - 1)), ss_loss
    raise InputError(f"{entry['name']!r} has an unknown noise: {entry['noise']!r} with {len(rest) + 1} integers")


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
        report = made.report(made.codes(record), np.array(words, np.uint32))
        yield {"record": record, "words": words, "report": report}
