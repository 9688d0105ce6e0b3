"""Options from the command line and from spec files -> a checked spec and its data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_rsfd.checks import check_seed
from gpu_rsfd.cli import parse
from gpu_rsfd.datasets import CountedDataset, Dataset, SyntheticDataset, is_table, load_datasets, load_table
from gpu_rsfd.datasets.paper.published import PUBLISHED
from gpu_rsfd.datasets.synthetic import PAPER_SYNTHETIC
from gpu_rsfd.datasets.table.load import OF_CODES, column_names
from gpu_rsfd.errors import InputError
from gpu_rsfd.protocols import PAPER, TERMS
from gpu_rsfd.spec import PAPER_EPSILONS, Spec
from gpu_rsfd.textfiles import toml_loads

DEFAULT_DATASET = "syn1"
BY_SIZE = ("users", "domain", "distribution")  # options of a synthetic data set
OF_TABLES = ("delimiter", "columns", "bins", "missing", "domain-file")  # options of one's own data
SPEC_KEYS = (
    "dataset",
    "data-dir",
    *BY_SIZE,
    "data-seed",
    *OF_TABLES,
    "epsilon",
    "protocol",
    "repetitions",
    "seed",
    "assignment",
    "sampler",
    "first-report",
    "guarantee",
    "prior",
    "prior-seed",
)


def read_spec(path: Path | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a TOML file, overridden by those given; lists stay lists, single values become one-item lists."""
    options: dict[str, Any] = {}
    if path is not None:
        try:
            options = toml_loads(path.read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise InputError(f"spec={path} can't be read: {error.strerror}") from None
        except ValueError as error:
            raise InputError(f"spec={path} is not a TOML file: {error}") from None
        options = {key.replace("_", "-"): value for key, value in options.items()}
        unknown = [key for key in options if key not in SPEC_KEYS]
        if unknown:
            raise InputError(f"spec={path} has an unknown key {unknown[0]!r}; valid: {', '.join(SPEC_KEYS)}")
    options.update({key: value for key, value in given.items() if value not in (None, [])})
    for key, value in options.items():
        if value in ("", [], {}) or (isinstance(value, str) and key != "delimiter" and not value.strip()):
            raise InputError(f"{key}={value!r} is empty; leave it out, or give a value")
    return options


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def spec_of(options: Mapping[str, Any]) -> Spec:
    return Spec.of(
        protocols=parse.items(_list(options["protocol"]), "protocol") if "protocol" in options else PAPER,
        epsilons=parse.epsilons(_list(options["epsilon"])) if "epsilon" in options else PAPER_EPSILONS,
        repetitions=parse.whole("repetitions", options.get("repetitions", 100)),
        seed=parse.whole("seed", options.get("seed", 0)),
        assignment=options.get("assignment", "uniform"),
        sampler=options.get("sampler", "users"),
        first_report=options.get("first-report", TERMS.first_report),
        guarantee=options.get("guarantee", TERMS.guarantee),
        prior=options.get("prior"),
        prior_seed=parse.whole("prior-seed", options.get("prior-seed", 0)),
    )


def datasets_of(options: Mapping[str, Any]) -> list[Dataset]:
    """Named data sets and files, or synthetic ones by size."""
    by_size = [key for key in BY_SIZE if key in options]
    if by_size and "dataset" in options:
        raise InputError(f"--dataset and --{by_size[0]} exclude each other; give a name, or a size")
    found = _synthetic(options) if by_size else _named(options)
    names = [dataset.name for dataset in found]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"data set {name!r} is given twice")
        if "/" in name or name in ("", ".", ".."):
            raise InputError(f"data set {name!r} can't be a group of the results file; its name must have no /")
    return found


def data_seed(options: Mapping[str, Any]) -> int:
    return check_seed(parse.whole("data-seed", options.get("data-seed", 0)))


def _synthetic(options: Mapping[str, Any]) -> list[Dataset]:
    for key in ("users", "domain"):
        if key not in options:
            raise InputError(f"a synthetic data set needs --users and --domain; --{key} is missing")
    _refuse(options, OF_TABLES, "needs a file of data (--dataset people.csv)")
    _refuse(options, ["data-dir"], "needs a data set of the paper (--dataset adult)")
    if options.get("sampler") == "marginals":
        _refuse(options, ["data-seed"], "has no use with --sampler marginals, which takes expected counts")
    domain = parse.domain(_list(options["domain"]))
    law, seed = str(options.get("distribution", "uniform")), data_seed(options)
    found: list[Dataset] = []
    for n in parse.users(_list(options["users"])):
        name = f"{law.replace(':', '')}-n{n}-d{len(domain)}"
        if options.get("sampler") == "marginals":  # needs no users: their expected counts, whatever n is
            found.append(CountedDataset.of_distribution(n, domain, law, name=name))
        else:
            found.append(SyntheticDataset(n, domain, law, seed=seed, name=name))
    return found


def _named(options: Mapping[str, Any]) -> list[Dataset]:
    texts = [str(text) for text in _list(options.get("dataset", DEFAULT_DATASET))]
    # a file may have a comma in its name
    names = [name for text in texts for name in ([text] if Path(text).is_file() else parse.items([text], "dataset"))]
    if not any(is_table(name) for name in names):
        _refuse(options, OF_TABLES, "needs a file of data (--dataset people.csv)")
    if not any(name in PUBLISHED for name in names):
        _refuse(options, ["data-dir"], "needs a data set with original files (--dataset adult)")
    if not any(name in PAPER_SYNTHETIC for name in names):
        _refuse(options, ["data-seed"], "needs synthetic data (--dataset syn1, or --users and --domain)")
    seed, folder = data_seed(options), str(options["data-dir"]) if "data-dir" in options else None
    known = iter(load_datasets([name for name in names if not is_table(name)], seed=seed, data_dir=folder))
    return [_table(name, options) if is_table(name) else next(known) for name in names]


def _table(path: str, options: Mapping[str, Any]) -> Dataset:
    if Path(path).suffix.lower() in OF_CODES:
        _refuse(options, ["missing"], f"needs a table of values (.csv or .parquet); {path} holds codes already")
    delimiter = str(options["delimiter"]) if "delimiter" in options else None
    columns, bins = (options.get(key) for key in ("columns", "bins"))
    names: list[str] = []
    if any("," in str(text) for text in [*_list(columns), *_list(bins)]):  # in a list, or in a column's name
        names = column_names(path, delimiter)
    return load_table(
        path,
        columns=None if columns is None else parse.items(_list(columns), "columns", names),
        bins={} if bins is None else _bins(bins, names),
        missing=options.get("missing", "category"),
        domain_file=str(options["domain-file"]) if "domain-file" in options else None,
        delimiter=delimiter,
    )


def _bins(value: Any, names: Sequence[str]) -> dict[str, str]:
    """`age=10` texts, or a table of a spec file; `names` are the columns of the file."""
    if isinstance(value, Mapping):
        return {str(column): str(bins) for column, bins in value.items()}
    texts = [str(text) for text in _list(value)]
    whole = [text for text in texts if text.rpartition("=")[0] in names]
    pairs = [text.rpartition("=") for text in parse.items(texts, "bins", whole)]
    for column, _, bins in pairs:
        if not column or not bins:
            raise InputError(f"bins={column}{bins} must be COLUMN=NUMBER, such as age=10, or age=10q for quantiles")
    return {column: bins for column, _, bins in pairs}


def _refuse(options: Mapping[str, Any], keys: Sequence[str], why: str) -> None:
    for key in keys:
        if key in options:
            raise InputError(f"--{key} {why}")
