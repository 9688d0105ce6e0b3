"""Every protocol in a table: what is sent, and what that costs at a given epsilon, d and k."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from json import dumps
from typing import NamedTuple

from rich.table import Table

from gpu_rsfd.errors import InputError
from gpu_rsfd.options import show_epsilon
from gpu_rsfd.protocols import PAPER, PrivacySettings, Protocol, mechanisms
from gpu_rsfd.protocols.describe import noises, sends
from gpu_rsfd.show.tables import PLAIN, finite
from gpu_rsfd.theory.needs import plan_table


class Setting(NamedTuple):
    """What protocols are compared at: d attributes of k values each, uniformly distributed."""

    epsilon: float = 1.0
    d: int = 5
    k: int = 10
    n: int = 10_000
    guarantee: str = "paper"

    @property
    def words(self) -> str:
        return (
            f"ε = {show_epsilon(self.epsilon)}, d = {self.d}, k = {self.k}, n = {self.n:,}, guarantee={self.guarantee}"
        )


class Entry(NamedTuple):
    """A protocol and what to expect of it; NaN, and the reason, where it can't be run."""

    name: str
    label: str
    summary: str
    sends: str
    noise: str
    budget: float = math.nan  # of the randomiser of an attribute
    bits: float = math.nan  # that a user sends
    mse: float = math.nan  # the expected MSE_avg of unbiased estimates
    loss_one: float = math.nan  # the exact loss between users who differ in one attribute
    loss_all: float = math.nan  # and between any two
    loss_is: str = "exact"  # or "first": of the first report of a longitudinal protocol; or "claimed" by its author
    problem: str = ""


def entry(protocol: Protocol, at: Setting) -> Entry:
    """A line of the table."""
    about = Entry(protocol.name, protocol.label, protocol.summary, sends(protocol), noises(protocol))
    domain, settings = (at.k,) * at.d, PrivacySettings(guarantee=at.guarantee)
    try:
        (row,) = plan_table(at.n, domain, [at.epsilon], [protocol], settings=settings)
        budget = mechanisms(protocol, at.epsilon, domain, settings)[0].budget
    except InputError as error:
        return about._replace(problem=str(error))
    kind = "claimed" if row.claimed else "first" if row.first_report else "exact"
    return about._replace(
        budget=budget, bits=row.bits_per_user, mse=row.mse, loss_one=row.loss_one, loss_all=row.loss_all, loss_is=kind
    )


def as_table(entries: Iterable[Entry]) -> Table:
    """For a terminal; a star marks the paper's six."""
    table = Table(**{**PLAIN, "padding": (0, 1)})
    for column in ("protocol", "label", "what is sent"):
        table.add_column(column, no_wrap=True)
    for column in ("budget", "bits", "MSE_avg", "loss: one", "any"):
        table.add_column(column, justify="right", no_wrap=True)
    for e in entries:
        mark = "*" if e.name in PAPER else " "
        table.add_row(f"{mark}{e.name}", e.label, e.summary, *_numbers(e))
    return table


def as_markdown(entries: Iterable[Entry]) -> str:
    """For a document."""
    lines = [
        "| name | label | noise | what is sent | budget | bits | MSE_avg | loss: one | any |",
        "|---|---|---|---|--:|--:|--:|--:|--:|",
    ]
    lines += [f"| {' | '.join((f'`{e.name}`', e.label, e.noise, e.sends, *_numbers(e)))} |" for e in entries]
    return "\n".join(lines)


def as_json(entries: Sequence[Entry], at: Setting) -> str:
    """For programs; null where there is no number."""
    rows = [finite(e._asdict()) for e in entries]
    return dumps({**at._asdict(), "protocols": rows}, indent=2, ensure_ascii=False)


def _numbers(e: Entry) -> list[str]:
    about = "" if e.loss_is == "exact" else f" {e.loss_is}"
    shown = f"{e.budget:.3f}", f"{e.bits:,.1f}", f"{e.mse:.2e}", f"{e.loss_one:.3f}{about}", f"{e.loss_all:.3f}{about}"
    return ["–" if text.startswith("nan") else text for text in shown]
