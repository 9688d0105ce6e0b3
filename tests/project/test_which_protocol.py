"""The page "Which protocol?" is what its script makes of the registry."""

from pathlib import Path

import pytest
from doc_tables import tables, which_protocol

from gpu_rsfd import PrivacySettings, mechanisms
from gpu_rsfd.protocols.loss import losses
from gpu_rsfd.theory import expected_mse

PAGE = Path(__file__).parents[2] / "docs" / "which-protocol.md"


@pytest.fixture(scope="module")
def script():
    return which_protocol


def test_the_page_has_table_and_figure(script):
    text = PAGE.read_text("utf-8")
    assert "{include} _generated/which-protocol.inc" in text
    assert f"{script.sentences()}\n\n{script.table()}" == tables.TABLES["which-protocol"]()
    assert f"]({script.FIGURE.name})" in text
    assert script.FIGURE.exists()


def test_cells_are_the_best_at_an_equal_guarantee(script):
    """Read from the page: no protocol of the family has a smaller error by more than 1 %, and the loss is kept."""
    text = script.table()
    lines = [
        [cell.strip(" *") for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")
    ]
    heads, rows = lines[0], lines[1:]
    assert len(rows) == 12
    for row in rows[::5]:
        epsilon, d, k = float(row[0]), int(row[1]), int(row[2])
        for head, cell in zip(heads[3:], row[3:], strict=True):
            family, guarantee = head.split(", ")
            name, shown = cell.split()
            settings, domain = PrivacySettings(guarantee=guarantee), (k,) * d
            loss = losses(mechanisms(name, epsilon, domain, settings), [1 if guarantee == "attribute" else d])[0]
            assert epsilon * 0.9 < loss <= epsilon
            each = [expected_mse(p, epsilon, 10_000, domain, settings=settings) for p in script.families()[family]]
            assert float(shown) == pytest.approx(min(each) ** 0.5, rel=0.06)  # two digits, and the 1 %


def test_users_do_not_change_the_order(script):
    for guarantee in script.GUARANTEES:
        orders = {
            tuple(sorted(script.families(), key=lambda family: script.best(family, at, guarantee).rmse))
            for at in (script.Point(n=int(n)) for n in script.AXES["n"][1])
        }
        assert len(orders) == 1
