"""The registry is the only place that names a protocol; the docs follow from it."""

import ast
import pickle
from pathlib import Path

import pytest

import gpu_rsfd
from gpu_rsfd.protocols import PROTOCOLS, REGISTRY, Bits, Keep, Recipe, Unsampled, mechanism
from gpu_rsfd.protocols.describe import noises_table, protocols_table

PACKAGE = Path(gpu_rsfd.__file__).parent
ROOT = PACKAGE.parent


def test_the_docs_have_the_registrys_tables():
    text = (ROOT / "docs" / "protocols.md").read_text(encoding="utf-8")
    assert protocols_table() in text
    assert noises_table() in text


def test_every_entry_is_complete():
    for entry in REGISTRY.values():
        assert entry.summary.endswith(".")
    assert len({entry.label for entry in REGISTRY.values()}) == len(REGISTRY)


@pytest.mark.slow
def test_no_solution_is_compared_outside_the_registry():
    """Neither a solution's name nor a protocol's prefix is looked at anywhere but where the entries are."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            texts = []
            if isinstance(node, ast.Compare):
                texts = [c.value for c in [node.left, *node.comparators] if isinstance(c, ast.Constant)]
            method = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
            if method in ("startswith", "endswith", "split", "partition"):
                texts = [a.value for a in node.args if isinstance(a, ast.Constant)]
            for text in texts:
                bad = isinstance(text, str) and text.strip("-") in ("rsfd", "spl", "smp", "adp", "rsrfd")
                assert not bad, f"{path.name}, line {node.lineno}: a protocol is recognised by {text!r}"


def test_recipes_that_make_no_sense_are_refused():
    with pytest.raises(TypeError, match="no empty encoding"):
        Recipe(Unsampled.ZERO, Keep(5))
    with pytest.raises(TypeError, match="prior is the distribution of fake values"):
        Recipe(Unsampled.OWN, Bits(9, 5), (1, 2))


def test_mechanisms_can_be_pickled():
    for protocol in PROTOCOLS:
        m = mechanism(protocol, 1.0, 3, 7)
        assert pickle.loads(pickle.dumps(m)) == m


def test_terms_that_make_no_sense_are_refused():
    with pytest.raises(gpu_rsfd.InputError, match="unknown guarantee 'best'"):
        gpu_rsfd.mechanisms("rsfd-grr", 1.0, (3, 4), gpu_rsfd.PrivacySettings(guarantee="best"))
    with pytest.raises(gpu_rsfd.InputError, match="priors of 1 attributes, but domain has 2"):
        gpu_rsfd.mechanisms("rsrfd-grr", 1.0, (3, 4), gpu_rsfd.PrivacySettings(priors=((5, 6),)))
    with pytest.raises(gpu_rsfd.InputError, match="unknown protocol"):
        gpu_rsfd.mechanisms("rsfd", 1.0, (3, 4))
