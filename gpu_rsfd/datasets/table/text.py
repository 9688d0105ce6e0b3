"""Text tables: encoding, delimiter and header, all found before the rows are read; and what is wrong with the rows."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple, NoReturn

from gpu_rsfd.datasets.options import BY_NAME
from gpu_rsfd.errors import InputError

SUFFIXES = (".csv", ".tsv", ".txt")
DELIMITERS = (",", ";", "\t", "|")  # those that are guessed
WESTERN = ("cp1252", "latin-1")  # what text that is not UTF-8 is most often; any bytes are valid Latin-1
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
    encoding: str  # as it was found
    problem: str = ""  # where it is not UTF-8, if the encoding is guessed


def suffix_of(path: Path) -> str:
    """`.csv` of people.csv and of people.csv.gz."""
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix


def read_bytes(path: Path) -> bytes:
    """The content of a file, unpacked if its name ends in .gz."""
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix.lower() == ".gz" else content
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a readable .gz file: {error}") from None
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}") from None


def show_delimiter(delimiter: str) -> str:
    return "tab" if delimiter == "\t" else repr(delimiter)


def read_text(path: Path, delimiter: str | None, encoding: str | None = None) -> TextTable:
    """A table's bytes and header.  UTF-8, UTF-16 with its mark, or the given encoding.

    Any other text is read as a Western encoding, and `problem` says where it begins.
    """
    notes, problem, content = [], "", read_bytes(path)
    if encoding is None and not content.startswith(_UTF16_MARKS):
        place = _bad_byte(content, "utf-8")
        if place is not None:
            encoding = next(name for name in WESTERN if _bad_byte(content, name) is None)
            problem = f"line {_lines(content, 0, place) + 1:,} (byte 0x{content[place]:02x})"
    if encoding is not None:
        try:
            content = content.decode(encoding).removeprefix("\ufeff").encode()
        except UnicodeError as error:
            _refuse(path, f"it is not in the encoding {encoding}: {error}")
        encoding = encoding.lower()
        notes += [encoding] if encoding not in ("utf-8", "utf8", "utf-8-sig") else []
    elif content.startswith(_UTF16_MARKS):
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
    shown = notes[0] if notes else "UTF-8"
    usual = "\t" if suffix_of(path) == ".tsv" else ","
    begin, declared = _declared(content)
    sample = content[begin : begin + SAMPLE_BYTES].decode("latin-1")  # a character for each byte; delimiters are ASCII
    found = delimiter or declared
    if found is None:
        named = usual == "\t" and len(next(_records(sample, usual), [])) > 1
        found = usual if named else _guess(path, sample, whole=len(content) - begin <= SAMPLE_BYTES)
    size, names = _header(path, sample, found)
    if found != usual:
        notes.append(f"delimiter {show_delimiter(found)}")
    return TextTable(path, content, begin + size, names, found, ", ".join(notes), shown, problem)


def _declared(content: bytes) -> tuple[int, str | None]:
    """Excel's first line `sep=;`: where it ends, and its delimiter."""
    match = re.match(rb'"?sep=(.)"?(?:\r\n|\r|\n)', content[:16], re.IGNORECASE)
    return (match.end(), BY_NAME["delimiter"].check(match[1].decode("latin-1"))) if match else (0, None)


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


def _header(path: Path, sample: str, delimiter: str) -> tuple[int, list[str]]:
    """The bytes of the first record that is not blank, and of what is before it; and its names.

    A quoted name may hold newlines.
    """
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, strict=True)
    try:
        record = next((record for record in reader if record), [])
    except csv.Error as error:
        _refuse(path, f"its header is not valid: {_plain(error, delimiter)}")
    size = sum(map(len, islice(io.StringIO(sample, newline=""), reader.line_num)))
    return size, [name.encode("latin-1").decode().strip() for name in record]


def records(table: TextTable, encoding: str = "utf-8") -> Iterator[tuple[int, int, list[str]]]:
    """(row, line, cells) of every record after the header that is not blank."""
    stream = io.TextIOWrapper(io.BytesIO(table.content[table.start :]), encoding=encoding, newline="")
    reader = csv.reader(stream, delimiter=table.delimiter, strict=True)
    before = _lines(table.content, 0, table.start)
    number, line = 0, before
    try:
        for record in reader:
            first, line = line + 1, before + reader.line_num
            if record:
                number += 1
                yield number, first, record
    except csv.Error as error:
        if "limit" in str(error):
            raise
        _refuse(table.path, f"row {number + 1:,} (line {line + 1:,}): {_plain(error, table.delimiter)}")


def check_rows(table: TextTable, rows: int | None = None) -> None:
    """Refuses rows that are cut wrongly, with the number of the first one; `rows` is how many another reader found."""
    width, number, uneven, message = len(table.header), 0, 0, ""
    try:
        for number, line, record in records(table, "latin-1"):
            if len(record) == width:
                continue
            uneven += 1
            message = message or (
                f"row {number:,} (line {line:,}) has {len(record)} field{'s' * (len(record) != 1)}, but the header has "
                f"{width}, cut at {show_delimiter(table.delimiter)}"
            )
    except csv.Error:
        return  # a cell too long for this reader
    if uneven:
        more = f"; {uneven:,} rows differ from the header" if uneven > 1 else ""
        _refuse(table.path, message + more)
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


def _bad_byte(content: bytes, encoding: str) -> int | None:
    """The place of the first byte that an encoding does not have."""
    try:
        content.decode(encoding)
    except UnicodeDecodeError as error:
        return error.start
    return None


def _refuse(path: Path, why: str) -> NoReturn:
    raise InputError(f"{path} is not a readable CSV file: {why}")
