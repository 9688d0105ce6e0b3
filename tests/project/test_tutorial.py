"""The tutorial is run: its Python as one script, its commands as they stand, and formulas are all of them MathML."""

import re
import shlex
from pathlib import Path

import pytest
from command import call

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "tutorial.md").read_text(encoding="utf-8")


def test_the_script(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(blocks) == 5
    exec(compile("\n".join(blocks), "tutorial.md", "exec"), {"__name__": "tutorial"})
    said = capsys.readouterr().out
    assert "nursery ('rsfd-grr', " in said
    assert "shop" in said
    assert b"/Subtype /Type3" not in (tmp_path / "both.pdf").read_bytes()


@pytest.mark.slow
def test_the_commands(monkeypatch, capsys, tmp_path):
    """In their order, those in the text included; the figure that is written last has no Type 3 font."""
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^    (gpu-rsfd .*)$|`(gpu-rsfd (?:plot|show) [^`]*)`", PAGE, re.M)
    assert len(commands) == 4
    for line in commands:
        words = shlex.split("".join(line))[1:]
        assert call(monkeypatch, *words, *(["--workers", "1"] if words[0] == "sweep" else [])) == 0, words
    assert {"nursery.png", "nursery.pdf", "sizes.png"} <= {path.name for path in tmp_path.iterdir()}
    pdf = (tmp_path / "nursery.pdf").read_bytes()
    assert b"/Type0" in pdf
    assert b"/Subtype /Type3" not in pdf
    assert r"\begin{tabular}" in capsys.readouterr().out


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_formulas_are_whole(path):
    """Dollars come in pairs outside code, so that none is left as text, and Euler's number stands upright."""
    text = re.sub(r"```.*?```|`[^`\n]*`|^    .*$", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
    assert text.count("$") % 2 == 0
    assert not re.search(r"\$[^$]*(?<![\w{\\])e\^[^$]*\$", text)
