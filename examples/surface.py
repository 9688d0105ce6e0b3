"""The paper's surface: VAR1 - VAR2 of eq. (12) over d and k.  Where it is <= 0, RS+FD[ADP] takes GRR, else OUE-z.

python examples/surface.py surface.png
"""

import math
import sys

import matplotlib.pyplot as plt
import numpy as np

import gpu_rsfd

BUDGET, USERS = math.log(3), 20_000  # of the sampled attribute, and n


def variance(protocol, d, k):
    """The variance of an estimate of a frequency 0 with this budget of the sampled attribute."""
    epsilon = math.log((math.exp(BUDGET) - 1) / d + 1)  # the total that is amplified to this budget
    m = gpu_rsfd.mechanism(protocol, epsilon, int(d), int(k))
    return m.variance(0.0, USERS)


d, k = np.meshgrid(np.arange(2, 11), np.arange(2, 21))
difference = np.vectorize(lambda d, k: variance("rsfd-grr", d, k) - variance("rsfd-oue-z", d, k))(d, k)
limit = float(np.abs(difference).max())
axis = plt.figure(figsize=(6.4, 4.8), layout="constrained").add_subplot(projection="3d")
drawn = axis.plot_surface(d, k, difference, cmap="RdBu_r", vmin=-limit, vmax=limit, edgecolor="#444444", linewidth=0.3)
axis.set(xlabel="d", ylabel="k", title=f"VAR$_1$ − VAR$_2$ at ε′ = ln 3, n = {USERS:,} (≤ 0: GRR; > 0: OUE-z)")
axis.view_init(elev=22, azim=-130)
axis.figure.colorbar(drawn, shrink=0.6, pad=0.12)
axis.figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "surface.png", dpi=150)
