"""The documentation as a site: `scripts/docs` builds it, and fails on every warning."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpu_rsfd import __version__

HERE = Path(__file__).parent
COMMANDS = ("sweep", "attack", "run", "paper", "merge", "show", "plot", "page", "plan", "data", "protocols",
            "aggregate", "rehearse", "doctor")  # fmt: skip

project, author, release = "gpu-rsfd", "The gpu-rsfd authors", __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"gpu-rsfd {release}"
exclude_patterns = ["_build", "pypi.md"]
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "undoc-members": False}
MOVED = {  # links of files outside docs/ that are pages here
    "](docs/": "](",
    "[examples](examples)": "`examples/`",  # notebooks, in the repository alone
    "](CONTRIBUTING.md": "](contributing.md",
    "](CHANGELOG.md": "](changelog.md",
    "](benchmarks/README.md": "](benchmarks.md",
}


def take_in(_app: Any, _page: str, source: list[str]) -> None:
    """`<<README.md>>` in a page stands for that file of the repository, its links as they are here."""

    def text(place: re.Match[str]) -> str:
        found = (HERE.parent / place[1]).read_text("utf-8")
        for old, new in MOVED.items():
            found = found.replace(old, new)
        return found

    source[0] = re.sub(r"<<([\w/.]+)>>", text, source[0])


def plain(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Docstrings are plain text with `code`: nothing else of them is markup, and what is indented stays as it is."""
    shown: list[str] = []
    paragraphs = "\n".join(lines).split("\n\n")
    for paragraph in paragraphs:
        rows = [row for row in paragraph.splitlines() if row.strip()]
        if rows and (any(row.startswith(" ") for row in rows) or any(re.search(r"\S {3,}\S", row) for row in rows)):
            shown += ["::", "", *(f"    {row}" for row in rows), ""]
        else:
            shown += [*map(_escaped, rows), ""]
    lines[:] = shown


def _escaped(line: str) -> str:
    parts = re.split(r"(`[^`]+`)", line)
    return "".join(
        f"`{part}`" if part.startswith("`") and part.endswith("`") else re.sub(r"([\\*|_`])", r"\\\1", part)
        for part in parts
    )


def write_commands(_app: Any) -> None:
    """Every command's --help, as it is."""
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    parts = ["# Commands\n"]
    for command in COMMANDS:
        words = [sys.executable, "-m", "gpu_rsfd", command, "--help"]
        done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
        text = done.stdout.replace("python -m gpu_rsfd", "gpu-rsfd").strip("\n")
        parts.append(f"## gpu-rsfd {command}\n\n```text\n{text}\n```\n")
    target = HERE / "_generated" / "commands.md"
    target.parent.mkdir(exist_ok=True)
    if not target.exists() or target.read_text("utf-8") != "\n".join(parts):
        target.write_text("\n".join(parts), "utf-8")


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", plain)
    app.connect("builder-inited", write_commands)
    app.connect("source-read", take_in)
