"""`rounds`: a collection over time, in which values are randomised once, remembered, and randomised again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_rsfd.backends.cpu.rounds import FAKING, SAMPLING, Attribute, Sender
from gpu_rsfd.checks import check_share, integer
from gpu_rsfd.datasets.base import Dataset
from gpu_rsfd.datasets.evolving import MOST_ROUNDS, ChangingDataset, EvolvingDataset
from gpu_rsfd.errors import InputError
from gpu_rsfd.measure.base import Measurement
from gpu_rsfd.options import OUTPUT, option_field, read_list, read_whole
from gpu_rsfd.planning import Plan
from gpu_rsfd.protocols import Unsampled
from gpu_rsfd.results.estimate import DEFAULT, MSE, STORED, errors_of, estimates, postprocess
from gpu_rsfd.results.metrics import average
from gpu_rsfd.results.result import Column

if TYPE_CHECKING:
    from gpu_rsfd.measure.reports import Chunk
    from gpu_rsfd.measure.view import View
    from gpu_rsfd.spec import Spec

ROUNDS = 12  # where neither the command nor the data say how many
SHOWN, AFTER = STORED.index(DEFAULT), f", postprocess={DEFAULT}"


def _check_change(value: Any) -> float:
    """A probability, 0 among them."""
    return 0.0 if str(value) in ("0", "0.0") else check_share("change", value)


def _distinct(values: Any) -> list[str]:
    found = [values] if isinstance(values, str) else list(values)
    if not found or len({*found}) < len(found):
        raise InputError(f"fakes={','.join(found)} must be different names, one at least")
    return found


@dataclass(frozen=True)
class Rounds(Measurement):
    """Simulate a collection over rounds with memoisation: errors, what users have spent, what an attacker guesses."""

    rounds: int = option_field(
        "N", "Rounds of the collection.", "24", read=read_whole("rounds"), default=0,
        check=lambda value: integer("rounds", value, 0, MOST_ROUNDS),
        default_text=f"those of the data, else {ROUNDS}", type_text="int, optional",
    )  # fmt: skip
    change: float = option_field(
        "SHARE", "Probability that a user draws a new value of an attribute before a round.", "0.05",
        check=_check_change, default=0.0, default_text="0", type_text="float, optional",
    )  # fmt: skip
    memo: str = option_field(
        "NAME", "Whether users remember what they randomised, or randomise their values afresh in each round (off).",
        "off", default="on", known=("on", "off"), type_text="{'on', 'off'}, optional",
    )  # fmt: skip
    fakes: list[str] = option_field(  # noqa: RUF009  (a field, made when it is asked for)
        "LIST", "How RS+FD makes fakes: from a remembered permutation of the values (memo), at random for each value "
        "(independent), once (fixed) or in each round (fresh); a list compares them.", "memo,fresh",
        many=True, check=_distinct, read=read_list("fakes"), default=["memo"], default_text="memo", known=FAKING,
        type_text="str or list of str, optional",
    )  # fmt: skip
    sampling: str = option_field(
        "NAME", "Whether users sample an attribute once (fixed) or in each round (fresh).", "fresh",
        default="fixed", known=SAMPLING, type_text="{'fixed', 'fresh'}, optional",
    )  # fmt: skip
    keep: str = option_field(
        "NAME", "What the results file stores: counts of each round, too, or only the errors (mse).", "counts",
        default="mse", known=("counts", "mse"), panel=OUTPUT, type_text="{'counts', 'mse'}, optional",
    )  # fmt: skip

    name = "rounds"
    command = "rounds"
    columns = {
        "mse": Column(f"MSE_avg of a round{AFTER}", "smaller", of=lambda r: r["mse"][..., SHOWN].mean(axis=-1)),
        "mse_mean": Column(
            f"MSE_avg of the mean over rounds{AFTER}", "smaller", of=lambda r: r["mse_mean"][..., SHOWN]
        ),
    }
    about = "{rounds} rounds, change={change}, memo {memo}"
    defaults = {"repetitions": 10, "output": "rounds.h5", "protocols": "*-l-grr"}
    backends = ("numpy",)
    examples = (
        "gpu-rsfd rounds --users 1e4 --domain 10x5 --rounds 24 --change 0.05",
        "gpu-rsfd rounds --dataset nursery --protocol 'smp-l-*,rsfd-l-*' --epsilon 1,2 --first-report 0.3",
        "gpu-rsfd rounds --dataset nursery --protocol rsfd-l-grr --fakes memo,fresh --attack",
    )

    def prepared(self, spec: Spec, datasets: Sequence[Dataset]) -> tuple[Any, Spec, Sequence[Dataset], list[Plan]]:
        if spec.sampler == "counts":
            raise InputError("sampler='counts' can't be used in rounds; available: users, marginals")
        if self.memo == "off" and self.fakes != ["memo"]:
            raise InputError(f"fakes={','.join(self.fakes)} needs --memo on: fakes are fresh if nothing is remembered")
        known = [data.rounds for data in datasets if isinstance(data, EvolvingDataset)]
        made = replace(self, rounds=self.rounds or min(known, default=ROUNDS))
        settings = [replace(spec.settings_for(data), memo=self.memo == "on") for data in datasets]
        plans = [
            Plan.of(data.domain, spec.protocols, spec.epsilons, spec.assignment, each)
            for data, each in zip(datasets, settings, strict=True)
        ]
        return made, spec, [made._evolving(data) for data in datasets], plans

    def _evolving(self, data: Dataset) -> EvolvingDataset:
        """The data with rounds: their own, or made ones."""
        if not isinstance(data, EvolvingDataset):
            return ChangingDataset(data, self.rounds, self.change)
        if self.change and not isinstance(data, ChangingDataset):
            raise InputError(f"change={self.change} can't be given for {data.name!r}, whose values have rounds already")
        if self.rounds > data.rounds:
            raise InputError(f"rounds={self.rounds}, but {data.name!r} has {data.rounds}")
        return data

    @property
    def _each(self) -> tuple[str, ...]:
        """The dimension of the ways to make fakes, if they are compared."""
        return ("fakes",) if len(self.fakes) > 1 else ()

    def recorded(self) -> Mapping[str, tuple[str, ...]]:
        arrays: dict[str, tuple[str, ...]] = {
            "reporters": ("round", "attribute"),
            "mse": (*self._each, "round", "postprocess"),
            "mse_mean": (*self._each, "postprocess"),
        }
        return arrays | ({"counts": (*self._each, "round", "value")} if self.keep == "counts" else {})

    def coords(self) -> Mapping[str, Sequence[Any]]:
        return {"round": range(1, self.rounds + 1), "postprocess": STORED, "fakes": self.fakes}

    def measure(self, view: View) -> Mapping[str, Any]:
        data = view.data = self._evolving(view.data)
        counts, reporters = self._drawn(view, data) if view.sampler == "marginals" else self._simulated(view)
        mse = np.empty((*counts.shape[:-1], len(STORED)))  # [protocol, epsilon, repetition, fakes, round, …]
        mean = np.zeros((*counts.shape[:4], counts.shape[-1]))
        for f, r in np.ndindex(counts.shape[3:5]):
            of_round = counts[:, :, :, f, r], reporters[:, :, :, r]
            mse[:, :, :, f, r] = errors_of(view.plan, data.frequencies_at(r), *of_round)
            mean[:, :, :, f] += estimates(view.plan, *of_round) / self.rounds
        truth = np.mean([data.frequencies_at(r) for r in range(self.rounds)], axis=0)
        domain = view.plan.domain
        of_mean = np.stack([average(MSE, truth, postprocess(name, mean, domain), domain) for name in STORED], axis=-1)
        if view.sampler == "marginals":
            of_mean[:] = np.nan  # rounds are drawn independently of each other
        made = {"counts": counts, "mse": mse, "mse_mean": of_mean}
        if not self._each:
            made = {name: array[:, :, :, 0] for name, array in made.items()}
        return {name: array for name, array in {**made, "reporters": reporters}.items() if name in self.recorded()}

    def _drawn(self, view: View, data: EvolvingDataset) -> tuple[Any, Any]:
        """Counts [protocol, epsilon, repetition, fakes, round, value] and reporters from their distribution."""
        each = [view.counts_at(data.counted_at(r)) for r in range(self.rounds)]
        counts, reporters = (np.stack(arrays, axis=3) for arrays in zip(*each, strict=True))
        return np.repeat(counts[:, :, :, None], len(self.fakes), axis=3), reporters

    def _simulated(self, view: View) -> tuple[Any, Any]:
        """The same from every user's reports."""
        view.check_backend(self.backends)
        plan = view.plan
        fakes = self.fakes if self.memo == "on" else ["fresh"]
        senders = [[[Sender.of(r, f, plan.d) for f in fakes] for r in a.recipes] for a in plan.attributes]
        distinct = [list(dict.fromkeys(s for row in rows for s in row)) for rows in senders]
        sums = view.sums(partial(_counted, self.sampling, self.rounds, distinct))
        counts = np.zeros(
            (len(plan.looks), len(plan.epsilons), len(view.repetitions), len(fakes), self.rounds, plan.values), np.int64
        )
        for p, e, f in np.ndindex(*counts.shape[:2], len(fakes)):
            for a, i in zip(plan.attributes, plan.cells[p][e], strict=True):
                number = distinct[a.index].index(senders[a.index][i][f])
                counts[p, e, :, f, :, a.columns] = sums[1 + a.index][:, number]
        reporters = np.full((*counts.shape[:3], self.rounds, plan.d), view.data.n, np.int64)
        reporters[np.array(plan.partial)] = sums[0]
        return counts, reporters


def _counted(sampling: str, rounds: int, senders: list[list[Sender]], chunk: Chunk) -> tuple[Any, ...]:
    """Who sampled what, [round, attribute]; then for each attribute the counts, [sender, round, value]."""
    users = chunk.over_rounds(sampling)
    sampled = np.stack([np.bincount(users.sampled(r), minlength=chunk.plan.d) for r in range(rounds)])
    tables = []
    for j, k in enumerate(chunk.domain):
        table = np.zeros((len(senders[j]), rounds, k), np.int64)
        attribute = Attribute(users, j, senders[j])
        for r, i, values, sent in attribute.reports(range(rounds)):
            noise, mine = senders[j][i].noise, users.sampled(r) == j
            alone = senders[j][i].recipe.unsampled is Unsampled.NOTHING
            if noise.cells:
                sent = attribute.cells[noise.cells] == sent
            if sent.ndim == 1:
                table[i, r] = np.bincount(sent[mine] if alone else sent, minlength=k)
            else:
                bits = np.packbits(sent & mine if alone else sent, axis=1)
                table[i, r, values] = np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
        tables.append(table)
    return sampled, *tables
