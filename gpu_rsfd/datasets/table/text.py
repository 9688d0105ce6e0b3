"""Text tables: encoding, delimiter and header, all found before the rows are read; and what is wrong with the rows."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple, NoReturn

from gpu_rsfd.errors import InputError

SUFFIXES = (".csv", ".tsv", ".txt")
DELIMITERS = (",", ";", "\t", "|")  # those that are guessed
NAMED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
SAMPLE_BYTES = 1 << 20  # holds the header
SAMPLE_RECORDS = 100  # that a guessed delimiter must fit

_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class TextTable(NamedTuple):
    """The bytes of a table, as UTF-8, and how they are to be read."""

    path: Path
    content: bytes
    start: int  # the first byte after the header
    header: list[str]  # blanks around the names dropped
    delimiter: str
    note: str  # what the file's name does not tell: `delimiter ';'`


def check_delimiter(delimiter: object) -> str:
    """One character, or its name."""
    text = str(delimiter)
    text = NAMED.get(text.lower(), text)
    if len(text) != 1 or not text.isascii() or text.isalnum() or text in '"\r\n\0':
        raise InputError(
            f"delimiter={str(delimiter)!r} must be one character such as ',', ';' or '|' (no letter, digit or "
            f"quotation mark), or one of {', '.join(name for name in NAMED if name.isalpha())}"
        )
    return text


def show_delimiter(delimiter: str) -> str:
    return "tab" if delimiter == "\t" else repr(delimiter)


def read_text(path: Path, delimiter: str | None) -> TextTable:
    """A table's bytes and header.  UTF-8, or UTF-16 with its mark; any other encoding is refused, not guessed."""
    notes = []
    try:
        content = path.read_bytes()
    except OSError as error:
        _refuse(path, str(error.strerror))
    if content.startswith(_UTF16_MARKS):
        try:
            content = content.decode("utf-16").encode()
        except UnicodeError as error:
            _refuse(path, f"it begins like UTF-16, but is not: {error}")
        notes.append("UTF-16")
    elif content.startswith(_UTF8_MARK):
        content = content[len(_UTF8_MARK) :]
    if (nul := content.find(b"\0")) >= 0:
        where = f"line {_lines(content, 0, nul) + 1}"
        _refuse(path, f"{where} holds a NUL character; is it text, in UTF-8 (or UTF-16 with a byte order mark)?")
    usual = "\t" if path.suffix.lower() == ".tsv" else ","
    begin, declared = _declared(content)
    sample = content[begin : begin + SAMPLE_BYTES].decode("latin-1")  # a character for each byte; delimiters are ASCII
    found = delimiter or declared
    if found is None:
        named = usual == "\t" and len(next(_records(sample, usual), [])) > 1
        found = usual if named else _guess(path, sample, whole=len(content) - begin <= SAMPLE_BYTES)
    start = begin + _header_size(path, sample, found)
    try:
        text = content[begin:start].decode()
    except UnicodeDecodeError as error:
        refuse_encoding(path, content, begin + error.start)
    header = next((row for row in csv.reader(io.StringIO(text, newline=""), delimiter=found) if row), [])
    if found != usual:
        notes.append(f"delimiter {show_delimiter(found)}")
    return TextTable(path, content, start, [name.strip() for name in header], found, ", ".join(notes))


def _declared(content: bytes) -> tuple[int, str | None]:
    """Excel's first line `sep=;`: where it ends, and its delimiter."""
    match = re.match(rb'"?sep=(.)"?(?:\r\n|\r|\n)', content[:16], re.IGNORECASE)
    return (match.end(), check_delimiter(match[1].decode("latin-1"))) if match else (0, None)


def _records(sample: str, delimiter: str) -> Iterator[list[str]]:
    """The records of a sample that are not blank; none after one that makes no sense."""
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
    while True:
        try:
            record = next(reader)
        except (StopIteration, csv.Error):
            return
        if record:
            yield record


def _guess(path: Path, sample: str, *, whole: bool) -> str:
    """The only delimiter that cuts the header and the first rows into equally many fields, two or more.

    If none does, rows are missing or uneven: then a comma, unless the header has none and one other delimiter cuts
    every row.
    """
    fit: list[str] = []
    cut: list[str] = []
    for delimiter in DELIMITERS:
        widths = [len(record) for record in islice(_records(sample, delimiter), SAMPLE_RECORDS + 1)]
        if not whole and 1 < len(widths) <= SAMPLE_RECORDS:
            widths.pop()  # the sample ends within it
        if len(widths) > 0 and min(widths) > 1:
            (fit if min(widths) == max(widths) else cut).append(delimiter)
    if not fit and len(next(_records(sample, ","), [])) > 1:
        return ","
    found = fit or cut or [","]
    if len(found) > 1:
        shown = " or ".join(map(show_delimiter, found))
        raise InputError(f"{path} can be read with the delimiter {shown}; give the one that is meant (delimiter)")
    return found[0]


def _header_size(path: Path, sample: str, delimiter: str) -> int:
    """Bytes up to the end of the first record that is not blank; a quoted name may hold newlines."""
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, strict=True)
    try:
        for record in reader:
            if record:
                break
    except csv.Error as error:
        _refuse(path, f"its header is not valid: {_plain(error, delimiter)}")
    return sum(map(len, islice(io.StringIO(sample, newline=""), reader.line_num)))


def check_rows(table: TextTable, rows: int | None = None) -> None:
    """Refuses rows that are cut wrongly, with the number of the first one; `rows` is how many another reader found."""
    stream = io.TextIOWrapper(io.BytesIO(table.content[table.start :]), encoding="latin-1", newline="")
    reader = csv.reader(stream, delimiter=table.delimiter, strict=True)
    before = _lines(table.content, 0, table.start)
    width, number, line = len(table.header), 0, before
    try:
        for record in reader:
            first, line = line + 1, before + reader.line_num
            if not record:
                continue
            number += 1
            if len(record) != width:
                fields = f"{len(record)} field{'s' * (len(record) != 1)}"
                _refuse(
                    table.path,
                    f"row {number:,} (line {first:,}) has {fields}, but the header has {width}, cut at "
                    f"{show_delimiter(table.delimiter)}",
                )
    except csv.Error as error:
        if "limit" in str(error):
            return  # a cell too long for this reader
        _refuse(table.path, f"row {number + 1:,} (line {line + 1:,}): {_plain(error, table.delimiter)}")
    if rows is not None and number != rows:
        _refuse(table.path, f"its quotation marks can be read as {number:,} or as {rows:,} rows")


def line_count(table: TextTable) -> int:
    """Lines after the header, blank ones and those within quotes included."""
    ended = table.start == len(table.content) or table.content.endswith((b"\n", b"\r"))
    return _lines(table.content, table.start, len(table.content)) + (not ended)


def _lines(content: bytes, start: int, stop: int) -> int:
    ends = content.count(b"\n", start, stop) + content.count(b"\r", start, stop)
    return ends - content.count(b"\r\n", start, stop)


def _plain(error: Exception, delimiter: str) -> str:
    if "end of data" in str(error):
        return "a quotation mark is opened and never closed"
    if "expected after" in str(error):
        return f"a closing quotation mark is followed by neither {show_delimiter(delimiter)} nor the end of the line"
    return str(error)


def check_encoding(table: TextTable) -> None:
    try:
        table.content.decode()
    except UnicodeDecodeError as error:
        refuse_encoding(table.path, table.content, error.start)


def refuse_encoding(path: Path, content: bytes, place: int) -> NoReturn:
    _refuse(
        path,
        f"line {_lines(content, 0, place) + 1:,} is not UTF-8 (byte 0x{content[place]:02x}); save it as UTF-8, or "
        f"convert it, for example from Latin-1: iconv -f latin1 -t utf-8 {path.name} > utf8-{path.name}",
    )


def _refuse(path: Path, why: str) -> NoReturn:
    raise InputError(f"{path} is not a readable CSV file: {why}")
