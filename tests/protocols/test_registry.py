"""The registry is the only place that names a protocol; the docs follow from it."""

import ast
import math
import pickle
import re
from pathlib import Path

import pytest
from doc_tables import tables

import gpu_rsfd
from gpu_rsfd.protocols import PROTOCOLS, REGISTRY, Bits, Keep, Recipe, Unsampled, mechanism

PACKAGE = Path(gpu_rsfd.__file__).parent
ROOT = PACKAGE.parent


def test_the_docs_have_every_protocol_and_noise():
    """Where a page includes a table, there is one."""
    for page in (ROOT / "docs").glob("*.md"):
        for name in re.findall(r"{include} _generated/(\S+)\.inc", page.read_text(encoding="utf-8")):
            assert tables.TABLES[name]().startswith(("| ", "## ", "- ")), (page.name, name)
    listed = tables.protocols()
    assert all(f"`{name}`" in listed for name in REGISTRY)
    rules = {variant.noise.name for entry in REGISTRY.values() for variant in entry.variants}
    assert set(re.findall(r"^\| ([a-z][\w-]*) \| \$", tables.noises(), re.M)) == rules | {"noise"}


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


def value_of(formula, **names):
    """A formula in LaTeX, whose names are numbers."""
    text = formula.replace(r"\frac1{", r"\frac{1}{").replace(r"\lambda", "shared").replace("p^*", "p")
    for _ in range(3):  # from the innermost out
        text = re.sub(r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r"((\1) / (\2))", text)
        text = re.sub(r"\\sqrt\{([^{}]*)\}", r"sqrt(\1)", text)
    text = (
        re.sub(r"\\text\{(\w+)\}", r"\1", text).replace(r"\max\left", "max").replace(r"\right", "").replace(r"\,", "")
    )
    return eval(re.sub(r"(?<=[\w)]) (?=[\w(])", "*", text), {"sqrt": math.sqrt}, names)


@pytest.mark.parametrize("k,budget", [(5, 1.3), (40, 2.4)])
def test_the_formulas_of_the_docs(k, budget):
    """Those of a table of the docs, worked out, are the probabilities; but for two, which need a choice of the code."""
    done = []
    for rule in dict.fromkeys(variant.noise for entry in REGISTRY.values() for variant in entry.variants):
        if rule.name == "the" or "q_2" in rule.p_star:
            continue
        m = mechanism(f"smp-{rule.name}", budget, 1, k)
        design = getattr(m.recipe.noise, "design", None)
        names = {"k": k, "E": math.exp(budget), "E_1": math.exp(budget / 2)}
        names |= {"M": design.messages, "s": design.size, "shared": design.shared} if design else {}
        formula, *where = re.split(r", (?=[a-z] = )", rule.p_star)
        names |= {part[0]: value_of(part[4:], **names) for part in where}
        p = value_of(formula, **names)
        assert (p, value_of(rule.q_star, p=p, **names)) == pytest.approx((m.p, m.q), abs=1e-6), rule.name
        done.append(rule.name)
    assert len(done) == 14
