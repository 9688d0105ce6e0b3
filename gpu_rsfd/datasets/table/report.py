"""What is in a table, and what to do about it before it is used."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_rsfd.checks import MAX_DOMAIN
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.datasets.options import OPTIONS, check_options, command_words, stored, with_options
from gpu_rsfd.datasets.table.columns import LIKE_MISSING, Column, Encoded, folded, natural_key
from gpu_rsfd.datasets.table.dates import UNITS, Dates
from gpu_rsfd.datasets.table.load import ReadTable, read_table, remember
from gpu_rsfd.datasets.table.text import show_delimiter
from gpu_rsfd.errors import InputError

COMMONEST = 3  # values listed for each column
MANY_NUMBERS = 30  # from here on, bins are suggested
MANY_VALUES = 20  # from here on, a column can be an identifier or free text
RARE = 0.005  # the share below which values are suggested to be grouped
MANY_RARE = 10  # of these values
WORDS = 4  # free text has so many on average
SHOWN_COLUMNS, SHOWN_NOTICES = 40, 3  # in the text: columns, and notices of one kind
WIDTH = 24  # characters of a name or value in the text


@dataclass(frozen=True)
class Notice:
    """Something about a column, or about the table (`column` is None), and the options that help.

    A `problem` must be settled before the table can be used.
    """

    kind: str
    column: str | None
    text: str
    options: dict[str, Any] = field(default_factory=dict)
    problem: bool = False


@dataclass(frozen=True)
class ColumnReport:
    """One column: its values as the options make them, or as they are if the column can't be used."""

    name: str
    kind: str  # number, text, date, true/false, mixed, empty or codes
    k: int  # different values, `(missing)` among them if it is one
    missing: int
    commonest: tuple[tuple[str, int, float], ...]  # label, users, share


@dataclass(frozen=True)
class TableReport:
    """What `describe` finds in a table; `print` shows it in words."""

    name: str
    source: str
    file: str | None  # as it was given
    rows: int
    users: int  # rows that are left, with missing=drop
    encoding: str | None
    delimiter: str | None
    columns: tuple[ColumnReport, ...]
    notices: tuple[Notice, ...]
    given: dict[str, Any]  # options, as a results file keeps them

    @property
    def usable(self) -> bool:
        """Whether the table can be used with the given options."""
        return not any(notice.problem for notice in self.notices)

    def suggested(self) -> dict[str, Any]:
        """The given options and those that help, together.

        A column that is to be left out needs nothing else.
        """
        out = {name for notice in self.notices for name in notice.options.get("exclude", ())}
        found: dict[str, Any] = dict(self.given)
        for notice in self.notices:
            if notice.column in out and "exclude" not in notice.options:
                continue
            for key, value in notice.options.items():
                if isinstance(value, dict):
                    found[key] = {**found.get(key, {}), **value}
                elif isinstance(value, list):
                    found[key] = list(dict.fromkeys([*found.get(key, []), *value]))
                else:
                    found[key] = value
        if "columns" in found:  # what is left out of those that were asked for
            found["columns"] = [name for name in found["columns"] if name not in out]
            found["exclude"] = [name for name in found.get("exclude", []) if name not in out]
        for key in ("bins", "merge_spellings", "as_text"):
            if isinstance(found.get(key), dict):
                refused = {notice.column for notice in self.notices if notice.problem and not notice.options}
                found[key] = {name: value for name, value in found[key].items() if name not in out | refused}
            elif key in found:
                found[key] = [name for name in found[key] if name not in out]
        return {key: value for key, value in found.items() if value}

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return {**asdict(self), "usable": self.usable, "suggested": self.suggested()}

    def __str__(self) -> str:
        return report_text(self)


@with_options
def describe(table: Any, *, name: str | None = None, **options: Any) -> TableReport:
    """Describe a table: its columns, their commonest values, and what to settle before it is used.

    Text that is not UTF-8 is read as a Western encoding, which the report then says.

    Parameters
    ----------
    table : path, DataFrame, Arrow table or Dataset
        As in `load_table`; a data set takes no options.
    name : str, optional
        Name of the data set.  Default: the file's, or `data`.
    **options
        See docs/data.md.

    Returns
    -------
    TableReport
        `print` shows it in words, `to_dict` gives what JSON can hold.

    Raises
    ------
    InputError
        If the table can't be read at all.
    """
    if isinstance(table, Dataset):
        for option in OPTIONS:
            if option.given(options.get(option.name)):
                raise InputError(f"{option.name} needs a table; {table.name!r} is a data set already")
        check_options(options)
        return _of_dataset(table, {})
    return _of_table(read_table(table, name, options), options)


def load_and_describe(table: Any, command: str, **options: Any) -> tuple[Dataset, TableReport]:
    """The data set of `load_table` and the report of `describe`, with the table read once.

    An error about several problems ends with the command that helps.
    """
    read = read_table(table, None, options)
    try:
        data = read.dataset()
    except InputError as error:
        if "\n" not in str(error):  # one problem, with its remedy
            raise
        raise InputError("\n".join([str(error), *_suggestion(_of_table(read, options), command)])) from None
    return remember(data, table, options), _of_table(read, options)


def _of_dataset(data: Dataset, given: dict[str, Any], file: str | None = None) -> TableReport:
    columns = []
    for j, name in enumerate(data.names):
        counts = data.counts[data.domain.slices[j]]
        labels = [str(v) for v in range(data.domain[j])] if data.labels is None else data.labels[j]
        columns.append(ColumnReport(name, "codes", data.domain[j], 0, _commonest(counts, labels, data.n)))
    return TableReport(data.name, data.source, file, data.n, data.n, None, None, tuple(columns), (), given)


def _of_table(read: ReadTable, options: Mapping[str, Any]) -> TableReport:
    given, checked = stored(options), check_options(options)
    if "domain_file" in given:
        given["domain_file"] = str(options["domain_file"])  # so that the suggested command finds it
    notices = [Notice("table", None, text, {}, problem=True) for text in read.problems]
    names = [column.name for column in read.columns]
    notices += [Notice("name", None, text, {"columns": names}, problem=True) for text in read.nameless]
    for name, text in read.unusable.items():
        notices.append(Notice("type", name, text.rpartition(": leave it out")[0] or text, {"exclude": [name]}, True))
    if read.guessed:
        encoding = {"encoding": read.encoding}
        text = f"{read.guessed} is not UTF-8; the file is shown as {read.encoding}: is that right?"
        notices.insert(0, Notice("encoding", None, text, encoding, problem=True))
    if read.coded is not None:
        return _of_dataset(read.coded, given, read.file)
    columns, users = [], len(read.columns[0].places) if read.columns else 0
    for column, encoded in zip(read.columns, read.encoded, strict=True):
        words = [place for place in column.present if column.numbers[place] is None]
        kind = _kind(column, words)
        if isinstance(encoded, Encoded):
            counts, labels = np.bincount(encoded.codes, minlength=len(encoded.labels)), encoded.labels
        else:
            counts, labels = column.counts, column.values
        k = len(labels) if isinstance(encoded, Encoded) else len(column.present)
        columns.append(ColumnReport(column.name, kind, k, column.missing, _commonest(counts, labels, users)))
        settled = column.name in read.domains or column.name in checked["bins"]
        notices += _notices(column, kind, words, encoded, checked, settled)
    how = (read.rows, users, read.encoding, read.delimiter)
    return TableReport(read.name, read.source, read.file, *how, tuple(columns), tuple(notices), given)


def _commonest(counts: npt.NDArray[np.int64], labels: Sequence[str], users: int) -> tuple[tuple[str, int, float], ...]:
    places = np.argsort(-counts, kind="stable")[:COMMONEST]
    return tuple((labels[place], int(counts[place]), float(counts[place] / users)) for place in places if counts[place])


def _kind(column: Column, words: Sequence[int]) -> str:
    """What the values of a column are, whatever becomes of them; `words`: the places of those that are no numbers."""
    if not column.present:
        return "empty"
    if column.declared and column.declared != "text":
        return column.declared
    if column.dates is not None:
        return "date"
    if column.declared or len(words) == len(column.present):
        return "text"
    return "mixed" if words else "number"


def _notices(
    column: Column,
    kind: str,
    words: Sequence[int],
    encoded: Encoded | InputError,
    options: Mapping[str, Any],
    settled: bool,
) -> Iterator[Notice]:
    """What is worth knowing about a column; `settled`: its values are given by bins or a domain."""
    name, k, values = column.name, len(column.present), [column.values[place] for place in column.present]
    rows, held = len(column.places), int(column.counts.sum())
    out, failed = {"exclude": [name]}, isinstance(encoded, InputError)
    if k == 0:
        yield Notice("empty", name, "no values: all are missing", out, problem=True)
        return
    if failed and options["missing"] == "error" and column.missing:
        yield Notice("column", name, str(encoded), {"missing": "category"}, problem=True)
        return
    marks = [place for place in words if column.values[place].strip().casefold() in LIKE_MISSING]
    if marks:
        likely, users = [column.values[place] for place in marks], int(column.counts[marks].sum())
        text = f"{_listed(likely)} ({_people(users)}) may mean missing"
        settles = failed and kind == "mixed" and len(marks) == len(words)
        yield Notice("missing", name, text, {"missing_values": [value.strip() for value in likely]}, problem=settles)
        if settles:
            return
    if settled:
        if failed:
            yield Notice("column", name, str(encoded), {}, problem=True)
        return
    if k == 1 and failed:
        yield Notice("constant", name, f"one value only, {_cut(values[0])!r}", out, problem=True)
        return
    many_texts = kind in ("text", "mixed") and k > MANY_VALUES
    if many_texts and sum(len(value.split()) for value in values) >= WORDS * k:
        example = f"{k:,} values in {rows:,} rows, such as {_cut(values[0])!r}"
        yield Notice("free text", name, f"free text? {example}", out, problem=failed)
        return
    numbered = kind == "number" and k == held and all(value.lstrip("+-").isdigit() for value in values)
    if (numbered and k > MANY_VALUES) or (many_texts and 2 * k > held):
        yield Notice("identifier", name, f"an identifier? {k:,} values in {rows:,} rows", out, problem=failed)
        return
    if column.dates is not None and options["group_rare"] is None:
        bins = _date_bins(column.dates, k)
        if bins is not None:
            yield Notice("date", name, f"{k:,} different dates", {"bins": {name: bins}}, problem=failed)
        return
    if kind == "number" and k > MANY_NUMBERS and options["group_rare"] is None:
        text = f"{k:,} different numbers"
        yield Notice("numbers", name, text, {"bins": {name: "10"}}, problem=failed)
        return
    if failed:
        remedy = _remedy(kind, name, k)
        text = str(encoded).rpartition("; if both")[0] if "as_text" in remedy else str(encoded)
        yield Notice("column", name, text, remedy, problem=True)
        return
    if kind == "text":
        yield from _about_text(column, values, options)


def _remedy(kind: str, name: str, k: int) -> dict[str, Any]:
    if k > MAX_DOMAIN:
        return {"group_rare": _share(RARE)} if kind == "text" else {"exclude": [name]}
    return {"as_text": [name]} if kind == "mixed" else {}


def _date_bins(dates: Dates, k: int) -> str | None:
    """The bins that make more than two values of some dates; a few dates need none."""
    units = [unit for unit in UNITS if len(set(dates.units(unit))) > 2]
    return units[0] if units else "10" if k > MANY_VALUES else None


def _about_text(column: Column, values: Sequence[str], options: Mapping[str, Any]) -> Iterator[Notice]:
    name, rows = column.name, len(column.places)
    spellings: dict[str, list[str]] = {}
    for value in values:
        spellings.setdefault(folded(value), []).append(value)
    same = [group for group in spellings.values() if len(group) > 1]
    if same and name not in (options["merge_spellings"] or ()):
        text = f"{_listed([' = '.join(map(_cut, group)) for group in same])}: they differ by case or spaces only"
        yield Notice("spellings", name, text, {"merge_spellings": [name]})
    if options["order"] != "natural":
        by_characters, natural = sorted(values), sorted(values, key=natural_key)
        if by_characters != natural:
            i = next(i for i, value in enumerate(natural) if by_characters[i] != value)
            text = f"{_cut(by_characters[i])!r} is sorted before {_cut(natural[i])!r}"
            yield Notice("order", name, text, {"order": "natural"})
    rare = int(np.count_nonzero(column.counts[column.present] < RARE * rows))
    if rare >= MANY_RARE and options["group_rare"] is None:
        text = f"{rare:,} of {len(values):,} values are held by less than {_share(RARE)} of the users each"
        yield Notice("rare", name, text, {"group_rare": _share(RARE)})


def _people(users: int) -> str:
    return f"{users:,} user{'s' * (users != 1)}"


def _share(share: float) -> str:
    return f"{100 * share:g}%"


def _percent(share: float) -> str:
    return "<0.1%" if 0 < share < 0.0005 else f"{100 * share:.1f}%"


def _cut(text: str, width: int = WIDTH) -> str:
    shown = text if text.isprintable() else repr(text)[1:-1]
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"


def _listed(texts: Sequence[str]) -> str:
    shown = ", ".join(repr(text) if "=" not in text else text for text in texts[:COMMONEST])
    return shown + (f" and {len(texts) - COMMONEST:,} more" if len(texts) > COMMONEST else "")


def report_text(report: TableReport, command: str = "gpu-rsfd data") -> str:
    """The report in words: a line per column, then what to settle, then the command with all options that help.

    `command` is what the last line begins with.
    """
    how = [] if report.encoding is None else [report.encoding]
    how += [] if report.delimiter is None else [f"delimiter {show_delimiter(report.delimiter)}"]
    users = f" ({report.users:,} without missing values)" if report.users != report.rows else ""
    d = len(report.columns)
    head = f"{report.file or report.name}: {report.rows:,} rows{users}, {d:,} column{'s' * (d != 1)}"
    lines = [f"{head}; {', '.join(how)}" if how else head, ""]
    rows = [("column", "kind", "k", "missing", "commonest values")]
    for column in report.columns[:SHOWN_COLUMNS]:
        values = ", ".join(f"{_cut(label)} {_percent(share)}" for label, _, share in column.commonest)
        missing = _percent(column.missing / report.users) if column.missing else "–"
        rows.append((_cut(column.name), column.kind, f"{column.k:,}", missing, values))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    for name, kind, k, missing, values in rows:
        line = f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {k:>{widths[2]}}  {missing:>{widths[3]}}  {values}"
        lines.append(line.rstrip())
    if d > SHOWN_COLUMNS:
        lines.append(f"… and {d - SHOWN_COLUMNS:,} more columns")
    for problem, title in ((True, "Settle before use"), (False, "Worth a look")):
        notices = [notice for notice in report.notices if notice.problem == problem]
        if notices:
            lines += ["", f"{title}:", *_notice_lines(notices)]
    if suggestion := _suggestion(report, command):
        lines += ["", *suggestion]
    return "\n".join(lines)


def _suggestion(report: TableReport, command: str) -> list[str]:
    """The command, or the call, with all options that help."""
    suggested = report.suggested()
    if suggested == report.given:
        return []
    if report.file is None:
        line = f"load_table({', '.join(['…', *(f'{key}={value!r}' for key, value in suggested.items())])})"
    else:
        line = f"{command} {shlex.join([report.file, *command_words(suggested)])}"
    return ["With every option that helps:", f"  {line}"]


def _notice_lines(notices: Sequence[Notice]) -> Iterator[str]:
    """A line each; of many columns with the same, the first ones and the names of the others."""
    for kind in dict.fromkeys(notice.kind for notice in notices):
        same = [notice for notice in notices if notice.kind == kind]
        few = same if len(same) <= SHOWN_NOTICES + 1 else same[:SHOWN_NOTICES]
        for notice in few:
            prefix = "" if notice.column is None else f"{_cut(notice.column)}: "
            text = notice.text.removeprefix(f"column {notice.column!r} ")
            words = shlex.join(command_words(notice.options))
            yield f"  {prefix}{text}" + (f"  →  {words}" if words else "")
        if len(few) < len(same):
            rest = [_cut(str(notice.column)) for notice in same[len(few) :]]
            names = ", ".join(rest[:10]) + (", …" if len(rest) > 10 else "")
            yield f"  … the same in {len(rest):,} more columns: {names}"
