"""The list of mutants is up to date: each of them still finds the text that it changes."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_every_mutant_can_be_made():
    known = runpy.run_path(str(ROOT / "benchmarks/mutants.py"))
    for mutant in (*known["KNOWN"], *known["MORE"], *known["HOST"], *known["NATIVE_MUTANTS"]):
        text = (ROOT / mutant.room / mutant.file).read_text(encoding="utf-8")
        assert mutant.text(text) != text


def test_a_mutant_that_finds_nothing_says_so():
    known = runpy.run_path(str(ROOT / "benchmarks/mutants.py"))
    with pytest.raises(SystemExit, match="this list is out of date"):
        known["Mutant"]("runner.py", "not there", "").text("nothing of the kind")
