"""A real collection, measured: clients against simulated users, the aggregator's speed, how often intervals hold.

python benchmarks/collected.py clients --reports 1000000
python benchmarks/collected.py speed --reports 3000000
python benchmarks/collected.py coverage --collections 1000
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from stats import normal_bound, two_sample_z

import gpu_rsfd

FAMILIES = ("smp-grr", "spl-grr", "rsfd-grr", "rsrfd-grr", "smp-oue", "rsfd-oue-z", "rsfd-oue-r", "rsrfd-oue-r",
            "spl-hr", "rsfd-pgr", "smp-ss")  # fmt: skip
BATCH = 20_000


def entries(chunk, partial):
    """Simulated reports as a client writes them."""
    rows = [[] for _ in chunk.sampled]
    for j, (values, users) in enumerate(zip(chunk.values, chunk.users, strict=True)):
        texts = [bytes(y + 48).decode() for y in values] if values.ndim == 2 else values.tolist()
        for i, y in zip((users - chunk.start).tolist(), texts, strict=True):
            rows[i] += [j, y] if partial else [y]
    return rows


def clients(count: int) -> None:
    """Reports of one record, with words of the operating system, against as many of a simulation."""
    columns, bound = {"a": ["x", "y"], "b": ["u", "v", "w"]}, normal_bound(2 * len(FAMILIES))
    print(f"{count:,} reports each; z of a two-sample chi-squared test, bound {bound:.2f}")
    for protocol in FAMILIES:
        prior = "zipf:1" if "rsrfd" in protocol else None
        found = []
        for epsilon in (1.0, 1.1):
            made, ours = gpu_rsfd.collection(columns, protocol, epsilon, prior=prior), Counter()
            for _ in range(0, count, BATCH):
                words = np.frombuffer(os.urandom(4 * BATCH * made.words), np.uint32).reshape(BATCH, -1)
                ours.update(map(str, made.reports([[1, 2]] * BATCH, words)))
            found.append(ours)
        settings = gpu_rsfd.PrivacySettings(priors=tuple(m.recipe.prior for m in made.mechanisms) if prior else None)
        data, theirs = gpu_rsfd.Dataset(np.array([[1, 2]], np.uint8).repeat(count, axis=0), (2, 3)), Counter()
        for chunk in gpu_rsfd.report_chunks(data, protocol, 1.0, seed=3, settings=settings, guarantee="user"):
            theirs.update(map(str, entries(chunk, protocol.startswith("smp"))))
        same, other = (two_sample_z(theirs, ours) for ours in found)
        print(f"{protocol:12} same {same:6.2f}   at epsilon 1.1 {other:8.2f}", flush=True)
        assert same < bound < other, protocol


def speed(count: int) -> None:
    """`gpu-rsfd aggregate` on JSON lines: seconds of the processor, and the largest memory."""
    columns = {f"c{k}": [str(v) for v in range(k)] for k in (3, 8, 6, 2, 20)}
    for protocol in ("smp-adp", "rsfd-grr", "rsfd-oue-z"):
        with tempfile.TemporaryDirectory() as folder:
            made = gpu_rsfd.collection(columns, protocol, 1.0)
            made.save(Path(folder, "collection.json"))
            data = gpu_rsfd.SyntheticDataset(count, (3, 8, 6, 2, 20), "zipf:1")
            with Path(folder, "r.jsonl").open("w") as file:
                for chunk in gpu_rsfd.report_chunks(data, protocol, 1.0, guarantee="user"):
                    for i, report in enumerate(entries(chunk, protocol == "smp-adp"), chunk.start):
                        print(json.dumps({"collection": made.identity, "report": report, "id": i}), file=file)
            for more in ([], ["--id", "id"]):
                before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
                words = [sys.executable, "-m", "gpu_rsfd", "aggregate", "collection.json", "r.jsonl", "--json", *more]
                done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                size = Path(folder, "r.jsonl").stat().st_size / 1e6
                assert json.loads(done.stdout)["reports"] == count
                print(
                    f"{protocol:12} {' '.join(more):8} {count:,} reports, {size:,.0f} MB: {used:.1f} s of the "
                    f"processor ({time.perf_counter() - start:.1f} s), at most {after.ru_maxrss / 1024:.0f} MB so far",
                    flush=True,
                )


def coverage(count: int) -> None:
    """How often the 95 % interval of a value holds the truth, from the reports of clients on."""
    rng, n = np.random.default_rng(7), 500
    for protocol in ("smp-grr", "smp-oue", "spl-hr", "rsfd-grr", "rsfd-oue-z"):
        made = gpu_rsfd.collection({"a": ["x", "y"], "b": list("uvwxy")}, protocol, 2.0)
        held = {"users": np.zeros(7), "population": np.zeros(7)}
        share = np.concatenate([[0.7, 0.3], [0.5, 0.2, 0.15, 0.1, 0.05]])
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(count):
                codes = np.stack([rng.choice(2, n, p=share[:2]), rng.choice(5, n, p=share[2:])], axis=1)
                truth = np.concatenate([np.bincount(codes[:, j], minlength=k) / n for j, k in enumerate((2, 5))])
                words = np.frombuffer(os.urandom(4 * n * made.words), np.uint32).reshape(n, -1)
                lines = (
                    json.dumps({"collection": made.identity, "report": r}) for r in made.reports(codes.tolist(), words)
                )
                Path(folder, "r.jsonl").write_text("\n".join(lines))
                state = gpu_rsfd.State(made)
                state.add(Path(folder, "r.jsonl"))
                for against, of in (("users", truth), ("population", share)):
                    found = state.aggregate(against)
                    held[against] += (found.low <= of) & (of <= found.high)
        error = np.sqrt(0.95 * 0.05 / count)
        for against, times in held.items():
            rates = times / count
            print(f"{protocol:12} {against:10} least {rates.min():.3f} mean {rates.mean():.3f} most {rates.max():.3f} "
                  f"(standard error of each {error:.4f})", flush=True)  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("clients", "speed", "coverage"))
    parser.add_argument("--reports", type=int, default=1_000_000)
    parser.add_argument("--collections", type=int, default=1000)
    given = parser.parse_args()
    if given.what == "coverage":
        coverage(given.collections)
    else:
        {"clients": clients, "speed": speed}[given.what](given.reports)
