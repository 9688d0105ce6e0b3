"""Options that several commands share: name, help with an example, and the panel of `--help` they stand in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from gpu_rsfd.estimate import POSTPROCESS
from gpu_rsfd.protocols import PROTOCOLS


def option(
    name: str, help: str, panel: str | None = None, metavar: str = "", known: Callable[[], Sequence[str]] | None = None
) -> Any:
    """`metavar` stands for the value in `--help`; the default is part of the text, since not all are values.

    `known` are the values that a shell completes.
    """
    complete = None if known is None else lambda incomplete: completed(known(), incomplete)
    return typer.Option(
        name, help=help, rich_help_panel=panel, show_default=False, metavar=metavar, autocompletion=complete
    )


def completed(known: Sequence[str], incomplete: str) -> list[str]:
    """What may follow, in a list as well: `rsfd-grr,sm` is completed to `rsfd-grr,smp-adp` and others."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [f"{before}{comma}{name}" for name in known if name.startswith(last) and name not in taken]


Text: TypeAlias = str | None
Texts: TypeAlias = list[str] | None
DATA, SIMULATION, MACHINE, OUTPUT = "Data", "Simulation", "Machine", "Output"

DataDir = Annotated[
    Text,
    option(
        "--data-dir", "Folder with the paper's original files (or GPU_RSFD_DATA).  --data-dir ~/uci", DATA, "FOLDER"
    ),
]
DataSeed = Annotated[Text, option("--data-seed", "Seed of synthetic data.  --data-seed 7  (default: 0)", DATA, "N")]
Epsilon = Annotated[
    Texts,
    option(
        "--epsilon",
        "Privacy budgets; repeatable or a list.  --epsilon 0.5,1,ln2  (default: ln2,…,ln7)",
        SIMULATION,
        "LIST",
    ),
]
Protocol = Annotated[
    Texts,
    option(
        "--protocol",
        "Protocols, listed below; repeatable or a list.  --protocol rsfd-grr,smp-adp  (default: the paper's six)",
        SIMULATION,
        "LIST",
        lambda: PROTOCOLS,
    ),
]
Repetitions = Annotated[
    Text, option("--repetitions", "Repetitions of each cell.  --repetitions 20  (default: 100)", SIMULATION, "N")
]
Seed = Annotated[
    Text, option("--seed", "Seed of the simulation, 0 … 2**64 - 1.  --seed 42  (default: 0)", SIMULATION, "N")
]
Sampler = Annotated[
    Text,
    option(
        "--sampler",
        "users (every report), or the law of the counts: counts, marginals.  --sampler counts  (default: users)",
        SIMULATION,
        "NAME",
    ),
]
Backend = Annotated[str, option("--backend", "auto, cupy or numpy.  --backend numpy  (default: auto)", MACHINE, "NAME")]
Workers = Annotated[
    Text, option("--workers", "Processes of the NumPy backend.  --workers 4  (default: one per core)", MACHINE, "N")
]
DeviceNumbers = Annotated[
    Texts,
    option("--device", "CUDA devices of the CuPy backend.  --device 0,1  (default: all that work)", MACHINE, "LIST"),
]
Overwrite = Annotated[bool, option("--overwrite", "Replace the results file.  --output results.h5 --overwrite", OUTPUT)]
Plot = Annotated[bool, option("--plot/--no-plot", "Draw the figure beside the results file.  (default: plot)", OUTPUT)]
SaveEvery = Annotated[
    float, option("--save-every", "Seconds of work between saves.  --save-every 30  (default: 2)", OUTPUT, "SECONDS")
]
Yes = Annotated[
    bool, option("--yes", "Go on with more than a day of work, or more than the memory has room for.", OUTPUT)
]
Keep = Annotated[
    str,
    option(
        "--keep", "counts, or mse: errors alone, in a far smaller file.  --keep mse  (default: counts)", OUTPUT, "NAME"
    ),
]
Cluster = Annotated[
    Text,
    option(
        "--cluster", "Dask: address or file of its scheduler, or local:4.  --cluster tcp://head:8786", MACHINE, "PLACE"
    ),
]
Part = Annotated[
    Text,
    option("--part", "One part of the sweep, as blocks beside the output.  --part 3/16", MACHINE, "PART"),
]
DryRun = Annotated[bool, option("--dry-run", "Print the plan, expected time and memory; simulate nothing.", OUTPUT)]
Quiet = Annotated[bool, option("--quiet", "Print nothing but errors.", OUTPUT)]
ShownPostprocess = Annotated[
    Text,
    option(
        "--postprocess",
        "none, clip, clip-normalize, simplex.  --postprocess none  (default: clip-normalize)",
        None,
        "NAME",
        lambda: list(POSTPROCESS),
    ),
]
DatasetNames = Annotated[
    Texts,
    option(
        "--dataset",
        "Data set by name or file; repeatable.  --dataset syn1 --dataset my.csv  (default: syn1)",
        DATA,
        "NAME",
    ),
]
Users = Annotated[
    Texts, option("--users", "Users of a synthetic set; a list is a sweep over n.  --users 1e4,1e5", DATA, "LIST")
]
Domain = Annotated[Texts, option("--domain", "Its domain sizes.  --domain 10,10,20  or  --domain 10x5", DATA, "LIST")]
Distribution = Annotated[
    Text,
    option("--distribution", "Its law: uniform or zipf:S.  --distribution zipf:1.2  (default: uniform)", DATA, "LAW"),
]
Delimiter = Annotated[
    Text,
    option(
        "--delimiter",
        "Of a text file: ; or tab or another character.  --delimiter ';'  (default: guessed)",
        DATA,
        "CHARACTER",
    ),
]
Columns = Annotated[Texts, option("--columns", "Columns of a file.  --columns sex,age  (default: all)", DATA, "LIST")]
Bins = Annotated[
    Texts,
    option(
        "--bins", "Bins of a numeric column: equal width, or quantiles with a q.  --bins age=10,pay=5q", DATA, "LIST"
    ),
]
Missing = Annotated[
    Text,
    option("--missing", "Missing values: category, drop or error.  --missing drop  (default: category)", DATA, "NAME"),
]
DomainFile = Annotated[
    Text,
    option("--domain-file", "JSON or TOML: column -> list of its values.  --domain-file domain.json", DATA, "FILE"),
]
Assignment = Annotated[
    Text,
    option(
        "--assignment",
        "uniform, or balanced (users in equal groups).  --assignment balanced  (default: uniform)",
        SIMULATION,
        "NAME",
    ),
]
FirstReport = Annotated[
    Text,
    option(
        "--first-report",
        "Longitudinal protocols: the share of epsilon that a first report loses.  --first-report 0.3  (default: 0.5)",
        SIMULATION,
        "SHARE",
    ),
]
Guarantee = Annotated[
    Text,
    option(
        "--guarantee",
        "What epsilon bounds: paper, user (any two users), attribute (users who differ in one).  (default: paper)",
        SIMULATION,
        "NAME",
    ),
]
Prior = Annotated[
    Text,
    option(
        "--prior",
        "Fake values of rsrfd-…: uniform, true, noisy:EPS, dirichlet:A, zipf:S or a JSON file.  (default: uniform)",
        SIMULATION,
        "LAW",
    ),
]
PriorSeed = Annotated[
    Text, option("--prior-seed", "Seed of a prior that is drawn: noisy, dirichlet.  (default: 0)", SIMULATION, "N")
]
SpecFile = Annotated[
    Path | None,
    option(
        "--spec",
        "Read the options above from a TOML file; those given here win.  --spec sweep.toml",
        SIMULATION,
        "FILE",
    ),
]
OnlyDatasets = Annotated[
    Texts, option("--dataset", "Only this data set; repeatable.  --dataset syn1  (default: all)", None, "NAME")
]
OnlyProtocols = Annotated[
    Texts,
    option(
        "--protocol",
        "Only these protocols; repeatable or a list.  --protocol rsfd-adp,smp-adp  (default: all)",
        None,
        "LIST",
        lambda: PROTOCOLS,
    ),
]
OnlyEpsilons = Annotated[
    Texts,
    option("--epsilon", "Only these epsilons; repeatable or a list.  --epsilon ln2,1  (default: all)", None, "LIST"),
]
