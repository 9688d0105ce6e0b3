"""An axis of one's own: users who report in every round under a pseudonym are re-identified.

An attacker who knows everybody's values picks, for each pseudonym, the person whose values its
reports support most often.  It is a simple attacker, which reads values and bits, not the
messages of Hadamard and other designs: shares are lower bounds.
"""

from dataclasses import dataclass

import numpy as np

import gpu_rsfd


@dataclass(frozen=True)
class Linked(gpu_rsfd.Measurement):
    """Share of users whom an attacker finds among all, after each round of reports."""

    rounds: int = 5
    targets: int = 200
    arrays = {"found": ("round",)}
    columns = {
        "found": gpu_rsfd.Column(
            "share of users re-identified",
            baseline=lambda header: 1 / header.n,
        ),
    }

    def coords(self):
        return {"round": range(1, self.rounds + 1)}

    def measure(self, view):
        data, targets = view.data, min(self.targets, view.data.n)
        known = [data.column(j, 0, data.n) for j in range(data.d)]
        cells = len(view.protocols), len(view.epsilons), len(view.repetitions)
        found = np.empty((*cells, self.rounds))
        for p, e, r in np.ndindex(cells):
            cell, repetition = (view.protocols[p], view.epsilons[e]), view.repetitions[r]
            ties = view.rng(*cell, repetition).random(data.n)  # broken at random
            support = np.tile(ties, (targets, 1))
            for t in range(self.rounds):
                again = repetition * self.rounds + t  # another repetition: fresh randomness
                reports = view.reports(*cell, again, (0, targets))
                for codes, values, users in zip(known, reports.values, reports.users, strict=True):
                    bits = values.ndim == 2
                    support[users] += values[:, codes] if bits else values[:, None] == codes
                found[p, e, r, t] = np.mean(support.argmax(axis=1) == np.arange(targets))
        return {"found": found}


if __name__ == "__main__":
    data = gpu_rsfd.SyntheticDataset(1000, (8,) * 5, name="people")
    results = gpu_rsfd.run(
        Linked(rounds=8),
        data,
        protocols=["smp-grr", "rsfd-grr"],
        epsilons=[1.0, 4.0],
        repetitions=4,
    )
    print(results["people"].found.mean(axis=2))  # [protocol, epsilon, round]
