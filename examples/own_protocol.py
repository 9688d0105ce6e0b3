"""Protocols of your own: defined, checked, simulated next to those of the paper.

    python examples/own_protocol.py own.h5

writes a results file, which `gpu-rsfd show own.h5` reads on any machine, this script or not.
"""

import math
import sys

import gpu_rsfd


def optimised(e, k):
    """Bits: P(1) of the user's own value, and of any other one."""
    return 0.5, 1 / (math.exp(e) + 1)


def kept(e, k):
    """The probability to send the user's own value; else it is a uniform one of all k."""
    return (math.exp(e) - 1) / (math.exp(e) + k - 1)


# Noise on the empty encoding for attributes that were not sampled; fake values; and the better of both.
mine = gpu_rsfd.protocol("mine", solution="rsfd-z", bits=optimised, label="Mine", colour="#c1121f", marker="^")
values = gpu_rsfd.protocol("values", solution="rsfd-r", keep=kept, label="Mine, values")
either = gpu_rsfd.protocol("either", adaptive=(mine, values), label="Mine, either")

if __name__ == "__main__":
    gpu_rsfd.check(mine)
    gpu_rsfd.check(values)
    data = gpu_rsfd.SyntheticDataset(20_000, (3, 5, 40), "zipf:1.1", seed=1, name="people")
    results = gpu_rsfd.sweep(
        data,
        protocols=[mine, values, either, "smp-adp"],
        epsilons=[0.5, 1.0, 2.0],
        repetitions=20,
        output=sys.argv[1] if len(sys.argv) > 1 else "own.h5",
        workers=2,
    )
    people = results["people"]
    for name, errors in zip(people.protocols, people.mse().mean(axis=-1), strict=True):
        print(f"{name:8}", *(f"{error:.2e}" for error in errors))
