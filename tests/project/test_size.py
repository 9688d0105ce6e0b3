"""A room can only shrink, or grow by a deliberate line here: code lines, without blanks, comments and docstrings."""

import ast
import functools
import io
import tokenize
from pathlib import Path

import pytest

import gpu_rsfd

PACKAGE = Path(gpu_rsfd.__file__).parent
LIMITS = {
    "top": 1_295,
    "protocols": 1_615,
    "datasets": 1_173,
    "backends": 3_313,
    "measure": 1_159,
    "store": 917,
    "running": 451,
    "results": 956,
    "collecting": 365,
    "theory": 1_123,
    "show": 2_215,
    "cli": 1_321,
    "contract and doctor": 339,
}
IN_ALL = 16_242
MODULES_AT_THE_TOP = 14
FILES = 130
NOT_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def code_lines(source):
    """Lines with a token that is neither layout, comment nor docstring."""
    documented = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for child in node.body:
                text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
                if text and isinstance(child.value.value, str):
                    documented.update(range(child.lineno, child.end_lineno + 1))
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


def room(path):
    first = path.relative_to(PACKAGE).parts[0]
    if first in ("contract.py", "doctor.py"):
        return "contract and doctor"
    return "top" if first.endswith((".py", ".pyi")) else first


@functools.cache
def sizes():
    found = dict.fromkeys(LIMITS, 0)
    for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")]):
        found[room(path)] += code_lines(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("name", LIMITS)
def test_a_room_stays_below_its_limit(name):
    assert sizes()[name] <= LIMITS[name]


def test_the_house_stays_below_its_limit():
    assert sum(LIMITS.values()) == IN_ALL
    assert sum(sizes().values()) <= IN_ALL
    assert len(list(PACKAGE.rglob("*.py"))) <= FILES
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__", "version"}
    assert len(modules) <= MODULES_AT_THE_TOP, sorted(modules)


def test_what_is_counted():
    source = (
        '"""A module."""\n\nimport os  # used\n\n\ndef f(x):\n    """Doc."""\n    # why\n    return (\n        x,\n'
    )
    assert code_lines(source + "    )\n") == 5
    assert code_lines('text = """\na\n"""\n') == 3
