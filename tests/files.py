"""Results files made directly, and what describes them."""

from __future__ import annotations

from gpu_rsfd.store.blocks import Block, Blocks, write_block
from gpu_rsfd.store.compact import Store
from gpu_rsfd.store.folder import folder_of
from gpu_rsfd.store.format import chunk_rows

from gpu_rsfd.errors import InputError
from gpu_rsfd.measure import Frequencies
from gpu_rsfd.spec import Spec
from gpu_rsfd.store.identity import key_of
from gpu_rsfd.tape import STREAM_VERSION


def describe(datasets, spec):
    """A spec, or the plain one of a result, with its data sets, as a results file has it."""
    plain = spec.described() if isinstance(spec, Spec) else spec
    sets = [data.describe() for data in datasets]
    return {"measurement": "frequencies", "datasets": sets, **plain, "stream_version": STREAM_VERSION}


def with_errors(result):
    """A result with the errors that a file would hold."""
    import numpy as np

    from gpu_rsfd.results.estimate import STORED

    return type(result)(**{**_fields(result), "errors": np.stack([result.mse(name) for name in STORED], axis=-1)})


def _fields(result):
    from dataclasses import fields

    return {f.name: getattr(result, f.name) for f in fields(result)}


def store(path, datasets, results, spec=None, backend="numpy", device="", seconds=1.0, described=None):
    """Writes results of simulate, one for each data set, as a sweep would."""
    want = described or describe(datasets, spec or results[0].spec)
    measurement, about = Frequencies(), {"seconds": seconds, "backend": backend, "device": device}
    rows = [chunk_rows(result, len(range(*want["repetitions"]))) for result in results]
    wanted = [next(r for d, r in zip(datasets, results, strict=True) if d.name == s["name"])
              for s in want["datasets"] if s["name"] in [d.name for d in datasets]]  # fmt: skip
    headers = wanted + [results[0]] * (len(want["datasets"]) - len(wanted))
    store = Store(path, want, headers, measurement, rows + rows[:1] * (len(headers) - len(rows)))
    store.blocks.begin(headers)
    for data, result in zip(datasets, results, strict=True):
        dataset = next(d for d in want["datasets"] if d["name"] == data.name)
        block = Block.of(result, data.name, key_of(want, dataset), 0, len(result.repetitions))
        whole = with_errors(result)
        made = (
            (p, {"counts": whole.counts[p], "reporters": whole.reporters[p], "mse": whole.errors[p]})
            for p in range(len(result.protocols))
        )
        target = folder_of(path) / block.name
        with target.open("w+b") as image:
            write_block(image, block, result, measurement.arrays(), rows[0], made, about)
        store.blocks.add(target, block, about)
    store.compact()
    Blocks(path, want).end()
    if not path.exists():
        raise InputError("nothing was stored")


def sweep_of(datasets, spec, path, backend, **options):
    """`gpu_rsfd.sweep` of a ready spec."""
    from gpu_rsfd import sweep

    return sweep(datasets, spec, output=path, backend=backend, **options)
