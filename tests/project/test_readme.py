"""The README shows what the program does: its table is printed, its Python code runs."""

import re
from pathlib import Path

import pytest
from command import call

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_first_command_prints_the_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, "sweep") == 0
    *table, written = capsys.readouterr().out.splitlines()
    shown = re.search(r"```\n(syn1: .*?)\n```", README, re.S)[1].splitlines()
    assert table == shown[:-1]
    assert written.split(" after ")[0] == shown[-1].split(" after ")[0]


@pytest.mark.slow
def test_the_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("pandas", reason="the extra `notebook` is not installed")
    (code,) = re.findall(r"```python\n(.*?)```", README, re.S)
    exec(compile(code, "README.md", "exec"), {})
    assert (tmp_path / "python.h5").exists()
