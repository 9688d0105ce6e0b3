"""`rounds`: a collection over time, in which values are randomised once, remembered, and randomised again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gpu_rsfd.checks import check_share, integer
from gpu_rsfd.datasets.base import MOST_ROUNDS, Dataset
from gpu_rsfd.datasets.evolving import ChangingDataset, EvolvingDataset
from gpu_rsfd.errors import InputError
from gpu_rsfd.measure.base import Measurement, keep_field
from gpu_rsfd.measure.block_guesses import Seen, right
from gpu_rsfd.measure.inference import Inference, most_frequent
from gpu_rsfd.measure.ledger import occurrences, spent
from gpu_rsfd.measure.memos import FAKING, SAMPLING, Attribute, Sender
from gpu_rsfd.options import distinct, entries, option_field, read_list, whole
from gpu_rsfd.planning import Plan, plan_for
from gpu_rsfd.protocols import Unsampled
from gpu_rsfd.results.estimate import DEFAULT, STORED, errors_of
from gpu_rsfd.results.result import Column, Header, Layout
from gpu_rsfd.tape import LANES

if TYPE_CHECKING:
    from gpu_rsfd.measure.reports import Chunk
    from gpu_rsfd.measure.view import View
    from gpu_rsfd.spec import Spec

ROUNDS = 12  # where neither the command nor the data say how many
STATISTICS = ("mean", "p50", "p90", "max")  # of users
LEDGER = "spent", "spent_published", "spent_any", "spent_afresh"
HITS = "sampled_success", "value_success", "claim_success", "value_baseline"  # the last one without a report
SEEN_BYTES, LEDGER_USERS = 1 << 23, 1 << 14  # what an attacker has seen of some users; users who are looked at together
SHOWN, ERROR = STORED.index(DEFAULT), f"MSE_avg ({DEFAULT})"
GUESSES: dict[str, Any] = {**Inference.columns}  # of an attacker who has seen so many rounds
GUESSES["value_success"] = GUESSES["value_success"]._replace(baseline=HITS[-1])


@dataclass(frozen=True)
class Rounds(Measurement):
    """Simulate a collection over rounds with memoisation: errors, what users have spent, what an attacker guesses."""

    rounds: int = option_field(
        "N", "Rounds of the collection.", "24", default=0, type_text="int, optional",
        read=lambda n: integer("rounds", whole("rounds", n), 1, MOST_ROUNDS),
        check=lambda n: integer("rounds", n, 0, MOST_ROUNDS), default_text=f"the data's, else {ROUNDS}")  # fmt: skip
    change: float = option_field(
        "SHARE", "Probability that a user draws a new value of an attribute before a round.", "0.05", default=0.0,
        check=lambda x: check_share("change", x, ">="), default_text="0", type_text="float, optional")  # fmt: skip
    memo: str = option_field(
        "NAME", "Whether users remember what they randomised, or randomise their values afresh in each round (off).",
        "off", default="on", known=("on", "off"), type_text="{'on', 'off'}, optional")  # fmt: skip
    fakes: list[str] = option_field(  # noqa: RUF009  (a field, made when it is asked for)
        "LIST", "How RS+FD makes fakes: from a remembered permutation of the values (memo), at random for each value "
        "(independent), once (fixed) or in each round (fresh); a list compares them.", "memo,fresh", many=True,
        check=lambda names: list(distinct("fakes", entries(names))), read=read_list("fakes"), default=["memo"],
        default_text="memo", known=FAKING, type_text="str or list of str, optional")  # fmt: skip
    sampling: str = option_field(
        "NAME", "Whether users sample an attribute once (fixed) or in each round (fresh).", "fresh",
        default="fixed", known=SAMPLING, type_text="{'fixed', 'fresh'}, optional")  # fmt: skip
    attack: bool = option_field(
        "", "Simulate the attacker who knows the marginals, all reports so far and when values change.", "",
        default=False, default_text="", kind=bool, check=bool, read=bool, type_text="bool, optional")  # fmt: skip
    keep: str = keep_field("mse", "counts")

    name = "rounds"
    command = "rounds"
    columns = {
        "mse": Column(f"{ERROR} of a round", "smaller", of=lambda r: r["mse"][..., SHOWN],
                      short="error", axis=ERROR, over="round", x="epsilon"),
        "mse_mean": Column(f"{ERROR} of mean estimates", "smaller", of=lambda r: r["mse_mean"][..., SHOWN],
                           short="error of mean estimates", axis=ERROR, x=""),
        "spent": Column("epsilon spent, mean of users", of=lambda r: r["spent"][..., 0], short="mean of users",
                        axis="ε spent", over="round", x="round",
                        beside={"as papers count": lambda r: r["spent_published"][..., 0],
                                "without a memo": lambda r: r["spent_afresh"][..., 0]}),
        "spent.p90": Column("epsilon spent by nine users in ten at most", of=lambda r: r["spent"][..., 2],  # not by one
                            short="nine in ten", axis="ε spent", field="spent_p90", over="round", x=""),
        **{name: column._replace(of=itemgetter(name), over="round", x="round") for name, column in GUESSES.items()},
    }  # fmt: skip
    defaults = {"repetitions": 10, "output": "rounds.h5", "protocols": "*-l-grr"}
    version = 2  # 1 had fewer arrays
    backends = ("numpy",)
    examples = (
        "gpu-rsfd rounds --users 1e4 --domain 10x5 --rounds 24 --change 0.05",
        "gpu-rsfd rounds --users 2e3 --domain 5x3 --protocol rsfd-l-grr --epsilon 2 --fakes memo,fresh --attack",
    )

    spec: ClassVar[Spec]  # of the run
    ledgers: ClassVar[dict[Any, Any]]  # what users have spent, by cell
    faking: ClassVar[list[str]]  # how fakes are made, for each that is compared

    def prepared(self, spec: Spec, datasets: Sequence[Dataset]) -> tuple[Any, Spec, Sequence[Dataset], list[Plan]]:
        if spec.sampler == "counts":
            raise InputError("sampler='counts' can't be used in rounds; available: users, marginals")
        if self.attack and (spec.sampler != "users" or self.sampling != "fixed"):
            raise InputError("attack=True needs sampler=users and sampling=fixed: all reports of one attribute")
        if self.memo == "off" and self.fakes != ["memo"]:
            raise InputError(f"fakes={','.join(self.fakes)} needs --memo on: fakes are fresh if nothing is remembered")
        known = [data.rounds for data in datasets if isinstance(data, EvolvingDataset)]
        made = replace(self, rounds=self.rounds or min(known, default=ROUNDS))
        vars(made).update(spec=spec, ledgers={}, faking=self.fakes if self.memo == "on" else ["fresh"])
        plans = [plan_for(spec, data, self.memo == "on") for data in datasets]
        if self.fakes != ["memo"] and plans[0].samples == plans[0].partial:
            raise InputError(f"fakes={','.join(self.fakes)} needs a protocol that makes fakes: RS+FD or RS+RFD")
        if self.sampling != "fixed" and not any(plans[0].samples):
            raise InputError(f"sampling={self.sampling} needs a protocol that samples attributes: Smp, RS+FD or RS+RFD")
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

    def recorded(self) -> Mapping[str, tuple[str, ...]]:
        arrays: dict[str, tuple[str, ...]] = {"mse": ("round", "postprocess"), "mse_mean": ("postprocess",)}
        arrays |= dict.fromkeys(LEDGER, ("round", "statistic")) | dict.fromkeys(HITS if self.attack else (), ("round",))
        arrays |= {"counts": ("round", "value")} if self.keep == "counts" else {}
        each = ("fakes",) if len(self.fakes) > 1 else ()
        return {"reporters": ("round", "attribute"), **{name: (*each, *dims) for name, dims in arrays.items()}}

    def coords(self) -> Mapping[str, Sequence[Any]]:
        return {"round": range(1, self.rounds + 1), "postprocess": STORED, "statistic": STATISTICS, "fakes": self.fakes}

    def layout(self, header: Header) -> Layout:
        found = super().layout(header)
        told = {*found.arrays} - ({"sampled_success"} if header.plan.d == 1 else set())  # the only one is sampled
        hidden = header.plan.d > 1 and header.plan.samples != header.plan.partial  # whose attribute, by RS+FD
        axes = {"value_success" if hidden else "sampled_success": ""}  # the other one is drawn
        axes |= {"mse": "round"} if len(header.plan.epsilons) == 1 else {}  # of one epsilon there is no line
        columns = {x: c._replace(x=axes.get(x, c.x)) for x, c in found.columns.items() if x.partition(".")[0] in told}
        about = "{rounds} round" + "s" * (self.rounds > 1) + ", change={change}" * (self.change > 0) + ", memo {memo}"
        about += ", fakes {fakes}" * (len(self.fakes) == 1 and self.fakes != ["memo"])  # of several, each has its row
        return found._replace(columns=columns, about=about + ", sampling {sampling}" * (self.sampling != "fixed"))

    def measure(self, view: View) -> Mapping[str, Any]:
        data = view.data = self._evolving(view.data)  # the first users alone, in a dry run
        drawn, ways = self.spec.sampler == "marginals", len(self.fakes)
        truth = data.counts_of_rounds[: self.rounds] / data.n
        counts, reporters, made = self._drawn(view, data) if drawn else self._simulated(view, truth)
        m = reporters[:, :, :, None]  # however fakes are made
        each = [errors_of(view.plan, truth[r], counts[..., r, :], m[..., r, :]) for r in range(self.rounds)]
        made |= {"counts": counts, "mse": np.stack(each, axis=4)}
        mean = errors_of(view.plan, truth.mean(axis=0), counts.mean(axis=4), m.mean(axis=4))
        made["mse_mean"] = np.where(drawn, np.nan, mean)  # drawn rounds are independent of each other: not in truth
        ledgers = np.array([self._ledger(view, *cell) for cell in np.ndindex(*counts.shape[:2], ways)])
        ledgers = ledgers.reshape(*counts.shape[:2], 1, ways, *ledgers.shape[1:]).repeat(counts.shape[2], axis=2)
        made |= {name: ledgers[..., i, :, :] for i, name in enumerate(LEDGER)}
        found = {name: array if ways > 1 else array[:, :, :, 0] for name, array in made.items()}
        found["reporters"] = reporters
        return {name: found[name] for name in self.recorded()}

    def _ledger(self, view: View, p: int, e: int, f: int) -> Any:
        """[what is counted, round, statistic]: what users have spent."""
        data: Any = view.data
        key = data.name, view.protocols[p], view.epsilons[e], f
        if data.name not in self.ledgers:
            self.ledgers[data.name] = list(_held(data, self.rounds))
        if key not in self.ledgers:
            how = self.spec.guarantee, self.faking[f], self.sampling
            parts = [spent(view.plan.mechanisms[p][e], held, *how) for held in self.ledgers[data.name]]
            each = [np.concatenate(users) for users in zip(*parts, strict=True)]  # [user, round]
            each = each or [np.full((1, self.rounds), np.nan)] * len(LEDGER)  # no user is known
            found = [[x.mean(axis=0), *np.quantile(x, (0.5, 0.9, 1), axis=0, method="nearest")] for x in each]
            self.ledgers[key] = np.swapaxes(found, 1, 2)
        return self.ledgers[key]

    def _drawn(self, view: View, data: EvolvingDataset) -> tuple[Any, Any, dict[str, Any]]:
        """Counts [protocol, epsilon, repetition, fakes, round, value] and reporters from their distribution."""
        each = [view.counts(data.counted_at(r) if r else None) for r in range(self.rounds)]
        counts, reporters = (np.stack(arrays, axis=3) for arrays in zip(*each, strict=True))
        return np.repeat(counts[:, :, :, None], len(self.fakes), axis=3), reporters, {}

    def _simulated(self, view: View, truth: Any) -> tuple[Any, Any, dict[str, Any]]:
        """The same from every user's reports, and the shares of right guesses."""
        plan, n = view.plan, view.data.n
        sampled, *tables, hits = view.sums(partial(_counted, self.sampling, self.faking, self.attack, truth))
        counts = plan.expand([np.moveaxis(table, 0, 1) for table in tables])
        shares = np.moveaxis(hits, 0, 2) / (n * np.array([1, plan.d, 1]))
        shares[~np.array(plan.samples), ..., 0] = np.nan
        blind = np.broadcast_to([most_frequent(f, view.data.domain) for f in truth], shares.shape[:-1])
        guesses = dict(zip(HITS, (*np.moveaxis(shares, -1, 0), blind), strict=True)) if self.attack else {}
        return counts, plan.reporters(n, sampled), guesses


def _counted(sampling: str, fakes: Sequence[str], attack: bool, known: Any, chunk: Chunk) -> Any:
    """Who sampled what, [round, attribute]; each attribute's counts, [recipe, fakes, round, value]; right guesses."""
    rounds, tables, sampled = len(known), [], np.zeros((len(known), chunk.plan.d), np.int64)
    for a in chunk.plan.attributes:
        every = [[Sender.of(recipe, one) for one in fakes] for recipe in a.recipes]
        found = {sender: np.zeros((rounds, a.k), np.int64) for row in every for sender in row}
        attribute = Attribute(chunk, sampling, a, list(found))
        for r, sender, mine, values, sent in attribute.reports(rounds):
            sampled[r, a.index] = mine.sum()
            sent = attribute.cells[g] == sent if (g := sender.noise.cells) else sent
            who = mine | (sender.recipe.unsampled is not Unsampled.NOTHING)
            if sent.ndim == 1:
                found[sender][r] = np.bincount(sent[who], minlength=a.k)
            else:
                bits = np.packbits(sent & who, axis=1)
                found[sender][r, values] = np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
        tables.append(np.array([[found[sender] for sender in row] for row in every]))
    return sampled, *tables, _attacked(fakes if attack else (), known, chunk)


def _attacked(fakes: Sequence[str], known: Any, chunk: Chunk) -> Any:
    """Right guesses: the sampled attribute, values, the safest one; [protocol, epsilon, fakes, round, what]."""
    plan, rounds = chunk.plan, len(known)
    hits = np.zeros((*plan.asked.shape, len(fakes), rounds, 3), np.int64)
    step = max(LANES, SEEN_BYTES // (rounds * plan.values) // LANES * LANES)
    for start in range(chunk.start, chunk.stop, step) if fakes else ():
        users = chunk.part(start, min(start + step, chunk.stop))
        codes = [np.stack([users.codes(j, r) for r in range(rounds)]) for j in range(plan.d)]
        began = [[(held[: r + 1] == held[r]).argmax(axis=0) for r in range(rounds)] for held in codes]
        for p, e, way in np.ndindex(hits.shape[:3]):
            senders = [Sender.of(plan.recipe(p, e, j), fakes[way]) for j in range(plan.d)]
            each = [Attribute(users, "fixed", a, [s]) for a, s in zip(plan.attributes, senders, strict=True)]
            seen = [Seen(*a.senders[0][:2], a.k, users.stop - start, rounds, *a.cells.values()) for a in each]
            for reports in zip(*(a.reports(rounds, a.k) for a in each), strict=True):
                r = reports[0][0]
                f = [known[r][a.columns] for a in plan.attributes]
                looks = [seen[j].add(f[j], began[j][r], sent) for j, (*_, sent) in enumerate(reports)]
                others, held = senders[0].recipe.unsampled, [column[r] for column in codes]
                hits[p, e, way, r] += right(looks, f, others, users.sampled, held)
    return hits


def _held(data: EvolvingDataset, rounds: int) -> Iterator[list[Any]]:
    """[user, round] of each attribute, some users at a time: how often the value held now has been held."""
    for start in range(0, data.n if data.has_rows else 0, LEDGER_USERS):
        where = start, min(start + LEDGER_USERS, data.n)
        yield [occurrences(np.stack([data.column(j, *where, r) for r in range(rounds)]).T) for j in range(data.d)]
