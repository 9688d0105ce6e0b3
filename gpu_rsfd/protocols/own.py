"""User-defined protocols: objects made from two probabilities, accepted wherever a name is."""

from __future__ import annotations

import math
import os
import re
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpu_rsfd.checks import MAX_DOMAIN
from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols.adaptive import Variant
from gpu_rsfd.protocols.budgets import AMPLIFIED, SPLIT, WHOLE, Budget
from gpu_rsfd.protocols.designs import Design, own_design
from gpu_rsfd.protocols.form import Noise, Unsampled
from gpu_rsfd.protocols.noise import PGR, NoiseRule, message_sets, unary_encoding, value_kept
from gpu_rsfd.protocols.registry import REGISTRY, Protocol, as_protocol
from gpu_rsfd.textfiles import execute

# solution -> what is sent for attributes that were not sampled, and the paper's budget
SOLUTIONS: dict[str, tuple[Unsampled, Budget]] = {
    "spl": (Unsampled.OWN, SPLIT),
    "smp": (Unsampled.NOTHING, WHOLE),
    "rsfd-z": (Unsampled.ZERO, AMPLIFIED),
    "rsfd-r": (Unsampled.FAKE, AMPLIFIED),
}
MARKERS = "oPsD^vX*d<>ph8H1234+x|_"  # those of Matplotlib that need no more than a letter
_NAME = re.compile(r"\w[\w.+-]*")


def protocol(
    name: str,
    *,
    solution: str | None = None,
    bits: Callable[[float, int], tuple[float, float]] | None = None,
    keep: Callable[[float, int], float] | None = None,
    sets: Any = None,
    adaptive: Sequence[str | Protocol] | None = None,
    budget: Callable[[float, int], float] | None = None,
    loss: Callable[[float, int], float] | None = None,
    label: str | None = None,
    colour: str | None = None,
    marker: str | None = None,
    summary: str | None = None,
    **unknown: object,
) -> Protocol:
    """Define a protocol.

    It is accepted wherever the name of a protocol is, and runs on all cores, on a GPU and on a cluster.
    `gpu_rsfd.check` tests it.

    Parameters
    ----------
    name : str
        Its name in results: letters, digits and . _ + - only, and not a name of `PROTOCOLS`.
    solution : {'spl', 'smp', 'rsfd-z', 'rsfd-r'}
        What a user sends: every attribute (`spl`); the sampled one alone (`smp`); the sampled one hidden among noise on
        the empty encoding (`rsfd-z`) or among fake values (`rsfd-r`; with `keep` they are sent as they are, with `sets`
        they are uniform messages).
    bits : callable, (e, k) -> (p, q)
        A bit for each of the k values is sent: 1 with probability p for the user's own value and q for any other.
    keep : callable, (e, k) -> probability
        A value is sent: the user's own with this probability, else a uniform one of all k values.
    sets : table, or callable, (e, k) -> table
        A message is sent; row v of the table has the messages (0, 1, …) that support value v.  All rows have equally
        many, and any two share equally many.  A message is exp(e) times as likely for a value that it supports as for
        any other.  If the table has more than k rows, the first k are used.
    adaptive : pair of str or Protocol
        Instead of `solution` and `bits`, `keep` or `sets`: two protocols of the same solution and budget.  For each
        attribute, the one with the smaller variance at f = 0 is used; ties go to the second.
    budget : callable, (epsilon, d) -> e, optional
        What one attribute may spend under the guarantee `paper`.  Default: epsilon / d for `spl`, epsilon for `smp`,
        ln(d (exp(epsilon) - 1) + 1) for `rsfd-z` and `rsfd-r`.  The budgets of `user` and `attribute` follow from
        the exact loss.
    loss : callable, (e, k) -> float, optional
        For `bits` that are computed from another message, as in local hashing: the loss of that message.  It can't be
        verified, so it is shown as claimed, and refused under the guarantees `user` and `attribute`.
    label, colour, marker, summary : str, optional
        How it is named, drawn and described: a colour as #rrggbb, a marker of Matplotlib, one sentence.  By default,
        figures choose a colour and a marker that no other protocol has.

    Returns
    -------
    Protocol
        The protocol.  Its probabilities are realised by integers out of 2**24 (`bits`) or 2**32 (`keep`, `sets`),
        rounded towards privacy, and never certain.

    Raises
    ------
    InputError
        If an argument is not valid; later, if a function raises or does not return probabilities with p > q.

    See Also
    --------
    check : Test a protocol.

    Examples
    --------
    >>> import math
    >>> def oue(e, k):
    ...     return 0.5, 1 / (math.exp(e) + 1)
    >>> mine = gpu_rsfd.protocol("mine", solution="rsfd-z", bits=oue)
    >>> theirs = gpu_rsfd.mechanism("rsfd-oue-z", 1.0, d=3, k=10)
    >>> gpu_rsfd.mechanism(mine, 1.0, d=3, k=10).recipe == theirs.recipe
    True

    The better of two for each attribute:

    >>> either = gpu_rsfd.protocol("either", adaptive=(mine, "rsfd-grr"))
    >>> [m.name for m in gpu_rsfd.mechanisms(either, 1.0, (2, 50))]
    ['grr', 'mine-z']
    """
    _check_name(name)
    if unknown:
        raise InputError(f"protocol {name!r} has no {min(unknown)}; write other mechanisms as gpu_rsfd.Measurement")
    label, *looks = _looks(name, label, colour, marker)
    if adaptive is not None:
        given = {"solution": solution, "bits": bits, "keep": keep, "sets": sets, "budget": budget, "loss": loss}
        extra = [key for key, value in given.items() if value is not None]
        if extra:
            raise InputError(
                f"protocol {name!r}: adaptive and {extra[0]} exclude each other; both protocols have theirs"
            )
        a, b, rule = _pair(name, adaptive)
        words = f"{a.label} or {b.label} for each attribute, by variance." if summary is None else summary
        return Protocol(name, label, rule, (*a.variants, *b.variants), _line(name, "summary", words), *looks)
    if solution not in SOLUTIONS:
        raise InputError(f"protocol {name!r}: unknown solution {solution!r}; available: {', '.join(SOLUTIONS)}")
    how = [key for key, given in (("bits", bits), ("keep", keep), ("sets", sets)) if given is not None]
    if len(how) != 1:
        raise InputError(f"protocol {name!r}: give one of bits, keep and sets, not {' and '.join(how) or 'none'}")
    for key, function in (("bits", bits), ("keep", keep), ("budget", budget), ("loss", loss)):
        if function is not None and not callable(function):
            raise InputError(f"protocol {name!r}: {key}={function!r} must be a function")
    others, usual = SOLUTIONS[str(solution)]
    sent = "a value" if keep is not None else "a message"
    if bits is None and others is Unsampled.ZERO:
        raise InputError(
            f"protocol {name!r}: {how[0]} sends {sent}, so fakes are {sent[2:]}s: use rsfd-r instead of rsfd-z"
        )
    if bits is None and loss is not None:
        raise InputError(f"protocol {name!r}: loss is for bits; that of {sent} that is sent is known exactly")
    if sets is not None:
        noise = _messages(name, sets)
    else:
        noise = _kept(name, keep) if keep is not None else _set(name, bits, loss)
    spending = Budget(usual.rule, usual.text)
    if budget is not None:
        spending = Budget(OwnBudget(budget, name), f"{getattr(budget, '__name__', 'budget')}(eps, d)")
    words = f"User-defined: {how[0]}, {solution}." if summary is None else summary
    return Protocol(name, label, spending, (Variant(noise, others),), _line(name, "summary", words), *looks)


def load_protocols(path: str | os.PathLike[str]) -> dict[str, Protocol]:
    """Load the protocols that a Python file defines.

    The file is executed, but not as `__main__`.

    Parameters
    ----------
    path : str or path
        A Python file that calls `gpu_rsfd.protocol`.

    Returns
    -------
    dict of Protocol
        The protocols among the file's variables, by their names, in the order of the file.

    Raises
    ------
    InputError
        If the file can't be read or run (with its line number), or defines no protocol.
    """
    path = Path(path)
    space: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    execute(path, space)
    found: dict[str, Protocol] = {}
    for value in space.values():
        if not isinstance(value, Protocol) or REGISTRY.get(value.name) is value:
            continue
        if found.setdefault(value.name, value) is not value:
            raise InputError(f"{path} defines two protocols named {value.name!r}")
    if not found:
        raise InputError(f"{path} defines no protocol; one is made with gpu_rsfd.protocol(name, solution=…, bits=…)")
    return found


def _check_name(name: object) -> None:
    valid = "letters, digits and . _ + - are valid, the first one a letter or digit"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(f"protocol {name!r} can't be the name of a protocol; {valid}")
    if name in REGISTRY:
        raise InputError(f"protocol {name!r} is the name of a protocol of gpu-rsfd; choose another one")


def _line(name: str, key: str, text: object) -> str:
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise InputError(f"protocol {name!r}: {key}={text!r} must be one line of text")
    return text


def _looks(name: str, label: object, colour: object, marker: object) -> tuple[str, str, str]:
    """(label, colour, marker); empty where figures choose."""
    if colour is not None and (not isinstance(colour, str) or not re.fullmatch(r"#[0-9a-fA-F]{6}", colour)):
        raise InputError(f"protocol {name!r}: colour={colour!r} must be like #1b1b1b")
    if marker is not None and (not isinstance(marker, str) or len(marker) != 1 or marker not in MARKERS):
        raise InputError(f"protocol {name!r}: marker={marker!r} is unknown; available: {' '.join(MARKERS)}")
    return _line(name, "label", name if label is None else label), colour or "", marker or ""


def _number(value: object) -> float:
    """A float; NaN for what is no number."""
    if isinstance(value, (bool, str, bytes)):
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan


@dataclass(frozen=True)
class Called:
    """A function of the user's, whose errors are told in one line."""

    function: Callable[..., Any]
    protocol: str = field(compare=False)

    def __call__(self, what: str, **arguments: float) -> Any:
        try:
            return self.function(*arguments.values())
        except OverflowError:
            raise  # too large a budget: the caller says so
        except Exception as error:
            raise InputError(f"{self.words(what, arguments)} raised {_told_after(error)}") from None

    def number(self, what: str, most: float = math.inf, **arguments: float) -> float:
        """What it gives, which must be above 0 and below `most`: 1, or infinity."""
        given = self(what, **arguments)
        number = _number(given)
        if not 0 < number < most:
            needed = "a probability > 0 and < 1" if most == 1 else "a finite number > 0"
            raise InputError(f"{self.words(what, arguments)} gave {given!r}; it must be {needed}")
        return number

    def words(self, what: str, arguments: dict[str, float]) -> str:
        given = ", ".join(f"{name}={value:g}" for name, value in arguments.items())
        return f"protocol {self.protocol!r}: {what}({given})"


def _told_after(error: Exception) -> str:
    """What was raised, and then where."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {' '.join(str(error).split())} ({Path(last.filename).name}, line {last.lineno})"


@dataclass(frozen=True)
class OwnBudget:
    """A budget rule of the user's, checked.  Equal for the same function."""

    function: Callable[[float, int], float]
    protocol: str = field(compare=False)

    def __call__(self, epsilon: float, d: int) -> float:
        return Called(self.function, self.protocol).number("budget", epsilon=epsilon, d=d)


def _set(name: str, bits: Any, loss: Any) -> NoiseRule:
    """A noise from (e, k) -> (p, q)."""
    called = Called(bits, name)

    def ideal(e: float, k: int) -> tuple[float, float]:
        given = called("bits", e=e, k=k)
        pair = tuple(map(_number, given)) if isinstance(given, (tuple, list)) else ()
        if len(pair) != 2 or not (0 < pair[1] < pair[0] < 1):
            words = called.words("bits", {"e": e, "k": k})
            raise InputError(f"{words} gave {given!r}; it must be (p, q) with 0 < q < p < 1")
        return pair[0], pair[1]

    stated = Called(loss, name)

    def claimed(noise: Noise, e: float, k: int) -> float:
        return stated.number("loss", e=e, k=k)

    more: dict[str, Any] = {} if loss is None else {"loss": claimed, "claimed": True}
    return unary_encoding(name, ideal, "p(e, k)", "q(e, k)", "own", **more)


def _kept(name: str, keep: Any) -> NoiseRule:
    """A noise from (e, k) -> the probability to keep."""
    called = Called(keep, name)

    def probability(e: float, k: int) -> float:
        return called.number("keep", 1, e=e, k=k)

    def ideal(e: float, k: int) -> tuple[float, float]:
        kept = probability(e, k)
        return kept + (1 - kept) / k, (1 - kept) / k

    return value_kept(name, ideal, probability, "keep + q", "(1 - keep) / k", "own")


def _messages(name: str, sets: Any) -> NoiseRule:
    """A noise from a table of message sets, or from (e, k) -> such a table."""
    fixed = None if callable(sets) else _design(f"protocol {name!r}: sets", sets)
    called = Called(sets, name)
    most = MAX_DOMAIN if fixed is None else len(fixed.source)

    @lru_cache(maxsize=64)
    def design(e: float, k: int) -> Design:
        words = called.words("sets", {"e": e, "k": k})
        found = _design(words, called("sets", e=e, k=k)) if fixed is None else fixed
        if len(found.source) < k:
            raise InputError(f"{words} has the sets of {len(found.source)} values; {k} are needed")
        return found

    def shape(e: float, k: int) -> tuple[int, int, int]:
        found = design(e, k)
        return found.messages, found.size, found.shared

    return message_sets(name, shape, design, PGR.p_star, PGR.q_star, "own", most)


def _design(words: str, sets: Any) -> Design:
    try:
        return own_design(sets)
    except InputError as error:
        raise InputError(f"{words} can't be used: {error}") from None


def _pair(name: str, adaptive: object) -> tuple[Protocol, Protocol, Budget]:
    """Two protocols of one family and budget, and that budget."""
    if isinstance(adaptive, str) or not isinstance(adaptive, Sequence) or len(adaptive) != 2:
        raise InputError(f"protocol {name!r}: adaptive={adaptive!r} must be two protocols")
    a, b = map(as_protocol, adaptive)
    for one in (a, b):
        if one.adaptive or one.prior or one.memoised:
            why = "adaptive itself" if one.adaptive else "longitudinal or has a prior"
            raise InputError(f"protocol {name!r}: adaptive={one.name!r} is {why}; give another one")
    families = {v.unsampled if not v.unsampled.hides else Unsampled.FAKE for v in (*a.variants, *b.variants)}
    if len(families) > 1:
        raise InputError(f"protocol {name!r}: {a.name} and {b.name} are of different solutions; both must be of one")
    if a.budget.rule != b.budget.rule:
        raise InputError(f"protocol {name!r}: {a.name} and {b.name} have different budgets; both must have the same")
    return a, b, Budget(a.budget.rule, a.budget.text)
