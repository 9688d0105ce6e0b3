"""Options from the command line and from spec files -> a checked spec and its data sets."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from gpu_rsfd.checks import MAX_ATTRIBUTES, MAX_DOMAIN, MIN_DOMAIN, check_seed
from gpu_rsfd.cli import options as declared
from gpu_rsfd.cli.terminal import escaped
from gpu_rsfd.command import name_by_size
from gpu_rsfd.datasets import CountedDataset, Dataset, SyntheticDataset, describe, is_table, load_datasets
from gpu_rsfd.datasets.options import OPTIONS as TABLE
from gpu_rsfd.datasets.options import parse_options
from gpu_rsfd.datasets.paper import PUBLISHED
from gpu_rsfd.datasets.synthetic import PAPER_SYNTHETIC
from gpu_rsfd.domain import Domain
from gpu_rsfd.errors import InputError
from gpu_rsfd.measure import Measurement
from gpu_rsfd.measure.base import options_of
from gpu_rsfd.options import entries, expanded, read_domain, read_sizes, read_users, split_list, unknown_name, whole
from gpu_rsfd.spec import FIELDS, Spec
from gpu_rsfd.textfiles import toml_loads

BY_SIZE = tuple(option.key for option in declared.SYNTHETIC)
OF_TABLES = tuple(option.key for option in TABLE)  # options of tables


def read_options(command: str, options: Mapping[str, Any], kind: type[Measurement] = Measurement) -> dict[str, Any]:
    """What is run, by key: the options of a TOML file (`--spec`), overridden by those of the command line."""
    valid = declared.inputs_of(command, kind)
    if options.get("file") is not None:
        options = {**options, "dataset": [str(options["file"]), *(options["dataset"] or [])]}
    path, found = options.get("spec"), {}
    if path is not None:
        found = {key.replace("_", "-"): value for key, value in read_toml(path).items()}
        for key in found:
            if key not in [option.key for option in valid]:
                raise InputError(f"spec={path}: {unknown_name(key, [option.key for option in valid], 'key')}")
    given = declared.given(options, valid)
    if "protocol-from" in found and "protocol-from" not in given and not options["allow_code"]:
        named = ", ".join(map(str, entries(found["protocol-from"])))
        raise InputError(f"spec={path} names Python files (protocol-from={named}); --allow-code executes them")
    found |= given
    for key, value in found.items():
        if value in ("", [], {}):
            raise InputError(f"{key}={value!r} is empty; leave it out, or give a value")
    return found


def read_toml(path: Path) -> dict[str, Any]:
    """A spec file."""
    try:
        return toml_loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"spec={path} does not exist") from None
    except OSError as error:
        raise InputError(f"spec={path} can't be read: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"spec={path} is not a TOML file: {error}") from None


def spec_of(options: Mapping[str, Any], command: str, kind: type[Measurement] = Measurement) -> Spec:
    """The spec of a command and what it measures."""
    fields = {field.name: field.read(options[field.key]) for field in FIELDS if field.key in options}
    if own := own_protocols(options):
        fields["protocols"] = own_or_known(fields.get("protocols", own), own)
    return Spec.of_command(command, None, fields, kind)


def own_or_known(names: Iterable[str], own: Mapping[str, Any]) -> list[Any]:
    """Protocols by their names or labels, by families of them, or `all`, those of one's own among them."""
    from gpu_rsfd.protocols import PROTOCOLS

    labels = {protocol.label: protocol for protocol in own.values()}
    return [own.get(name, labels.get(name, name)) for name in expanded(names, [*own, *PROTOCOLS], "protocol")]


def own_protocols(options: Mapping[str, Any]) -> dict[str, Any]:
    """The protocols of `--protocol-from`, by name."""
    if "protocol-from" not in options:
        return {}
    from gpu_rsfd.protocols import REGISTRY
    from gpu_rsfd.protocols.own import load_protocols

    own: dict[str, Any] = {}
    for path in split_list(entries(options["protocol-from"]), "protocol-from"):
        for name, protocol in load_protocols(Path(path)).items():
            if name in REGISTRY or name in own:
                other = "gpu-rsfd" if name in REGISTRY else "another file"
                raise InputError(f"protocol-from={path}: {other} has a protocol {name!r}; give it another name")
            own[name] = protocol
    return own


def measurement_of(options: Mapping[str, Any], kind: type[Measurement]) -> Measurement:
    """What a command measures, with its options."""
    needed = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    for option in options_of(kind):
        if option.name in needed and option.key not in options:
            raise InputError(f"{kind.name} needs --{option.key}")
    return kind(**{o.name: o.read(options[o.key]) for o in options_of(kind) if o.key in options})


def datasets_of(options: Mapping[str, Any], quiet: bool) -> list[Dataset]:
    """Named data sets and files, then synthetic ones by size.

    What is in a file is said on standard error, unless `quiet`.
    """
    by_size = any(key in options for key in BY_SIZE)
    texts = [str(text) for text in entries(options.get("dataset", [] if by_size else "syn1"))]
    # a file may have a comma in its name
    names = [name for text in texts for name in ([text] if Path(text).is_file() else split_list([text], "dataset"))]
    of_tables = () if any(map(is_table, names)) else OF_TABLES
    _refuse(options, of_tables, "needs a file of data (--dataset people.csv)")
    if not {*PUBLISHED} & {*names}:
        _refuse(options, ["data-dir"], "needs a data set with original files (--dataset adult)")
    if not {*PAPER_SYNTHETIC} & {*names} and not by_size:
        _refuse(options, ["data-seed"], "needs synthetic data (--dataset syn1, or --users and --domain)")
    seed = check_seed(whole("data-seed", options.get("data-seed", 0)))
    return [*_named(names, options, seed, quiet), *(_synthetic(options, seed) if by_size else [])]


def _synthetic(options: Mapping[str, Any], seed: int) -> list[Dataset]:
    grid = "attributes" in options or "values" in options
    if grid and "domain" in options:
        raise InputError("--domain and --attributes exclude each other; --attributes goes with --values")
    needed = ("users", "attributes", "values") if grid else ("users", "domain")
    for key in needed:
        if key not in options:
            listed = f"{', '.join(f'--{other}' for other in needed[:-1])} and --{needed[-1]}"
            other = "" if "dataset" in options else ", or give a table or --dataset instead"
            raise InputError(f"a synthetic data set needs {listed}; --{key} is missing{other}")
    if options.get("sampler") == "marginals" and "dataset" not in options:
        _refuse(options, ["data-seed"], "has no use with --sampler marginals, which takes expected counts")
    domains: list[Any] = [] if grid else [(Domain.of(read_domain(options["domain"])), None)]
    if grid:
        ds = read_sizes("attributes", options["attributes"], 1, MAX_ATTRIBUTES)
        ks = read_sizes("values", options["values"], MIN_DOMAIN, MAX_DOMAIN)
        domains = [(Domain.of([k] * d), k) for d, k in product(ds, ks)]
    distribution = str(options.get("distribution", "uniform"))
    made: Any = partial(SyntheticDataset, seed=seed)
    if options.get("sampler") == "marginals":  # needs no users: their expected counts, whatever n is
        made = CountedDataset.of_distribution
    sizes = product(read_users(options["users"]), domains)
    return [made(n, each, distribution, name=name_by_size(n, each, distribution, k)) for n, (each, k) in sizes]


def _named(names: Sequence[str], options: Mapping[str, Any], seed: int, quiet: bool) -> list[Dataset]:
    folder = str(options["data-dir"]) if "data-dir" in options else None
    known = iter(load_datasets([name for name in names if not is_table(name)], seed=seed, data_dir=folder))
    found = []
    for name in names:
        report = describe(name, **parse_options(options)) if is_table(name) else None
        found.append(next(known) if report is None else report.dataset())
        if report is not None and not quiet:
            print(escaped(f"{report}\n"), file=sys.stderr)
    return found


def _refuse(options: Mapping[str, Any], keys: Sequence[str], why: str) -> None:
    for key in keys:
        if key in options:
            raise InputError(f"--{key} {why}")
