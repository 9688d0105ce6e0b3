"""The command line: one call per command."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from gpu_rsfd import commands

app = typer.Typer(
    name="gpu-rsfd",
    help="Simulate multidimensional frequency estimation under local differential privacy: RS+FD, Spl and Smp.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

Texts = list[str] | None


def option(*names: str, help: str, panel: str | None = None) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=False)


@app.command(
    epilog="Examples:  gpu-rsfd sweep  ·  gpu-rsfd sweep --dataset syn3 --dataset syn6 --repetitions 10  ·  "
    "gpu-rsfd sweep --users 1e4,1e5,1e6 --domain 10x5 --epsilon ln3 --output over_n.h5"
)
def sweep(
    dataset: Annotated[
        Texts,
        option(
            "--dataset",
            help="Data set by name; repeatable.  --dataset syn1 --dataset syn3  (default: syn1)",
            panel="Data",
        ),
    ] = None,
    users: Annotated[
        Texts,
        option("--users", help="Users of a synthetic set; a list is a sweep over n.  --users 1e4,1e5", panel="Data"),
    ] = None,
    domain: Annotated[
        Texts, option("--domain", help="Its domain sizes.  --domain 10,10,20  or  --domain 10x5", panel="Data")
    ] = None,
    distribution: Annotated[
        str | None,
        option(
            "--distribution",
            help="Its law: uniform or zipf:S.  --distribution zipf:1.2  (default: uniform)",
            panel="Data",
        ),
    ] = None,
    data_seed: Annotated[
        str | None, option("--data-seed", help="Seed of synthetic data.  --data-seed 7  (default: 0)", panel="Data")
    ] = None,
    epsilon: Annotated[
        Texts,
        option(
            "--epsilon",
            help="Privacy budgets; repeatable or a list.  --epsilon 0.5,1,ln2  (default: ln2,…,ln7)",
            panel="Simulation",
        ),
    ] = None,
    protocol: Annotated[
        Texts,
        option(
            "--protocol",
            help="Protocols; repeatable or a list.  --protocol rsfd-grr,smp-adp  (default: the paper's six)",
            panel="Simulation",
        ),
    ] = None,
    repetitions: Annotated[
        str | None,
        option("--repetitions", help="Repetitions of each cell.  --repetitions 20  (default: 100)", panel="Simulation"),
    ] = None,
    seed: Annotated[
        str | None,
        option("--seed", help="Seed of the simulation, 0 … 2**64 - 1.  --seed 42  (default: 0)", panel="Simulation"),
    ] = None,
    assignment: Annotated[
        str | None,
        option(
            "--assignment",
            help="How users sample attributes: uniform, or balanced (equal groups).  (default: uniform)",
            panel="Simulation",
        ),
    ] = None,
    spec: Annotated[
        Path | None,
        option(
            "--spec",
            help="Read the options above from a TOML file; those given here win.  --spec sweep.toml",
            panel="Simulation",
        ),
    ] = None,
    backend: Annotated[
        str, option("--backend", help="auto, cupy or numpy.  --backend numpy  (default: auto)", panel="Machine")
    ] = "auto",
    workers: Annotated[
        str | None,
        option(
            "--workers", help="Processes of the NumPy backend.  --workers 4  (default: one per core)", panel="Machine"
        ),
    ] = None,
    output: Annotated[
        Path,
        option(
            "--output",
            help="Results file; the same command continues it.  --output syn3.h5  (default: results.h5)",
            panel="Output",
        ),
    ] = Path("results.h5"),
    overwrite: Annotated[bool, option("--overwrite", help="Replace the results file.", panel="Output")] = False,
    plot: Annotated[
        bool,
        option("--plot/--no-plot", help="Draw the figure beside the results file.  (default: plot)", panel="Output"),
    ] = True,
    save_every: Annotated[
        float,
        option("--save-every", help="Seconds of work between saves.  --save-every 30  (default: 2)", panel="Output"),
    ] = 2.0,
    dry_run: Annotated[
        bool, option("--dry-run", help="Print the plan, expected time and memory; simulate nothing.", panel="Output")
    ] = False,
    quiet: Annotated[bool, option("--quiet", help="Print nothing but errors.", panel="Output")] = False,
) -> None:
    """Simulate data sets x protocols x epsilons x repetitions into one HDF5 file, with a table and a figure."""
    given = {
        "dataset": dataset,
        "users": users,
        "domain": domain,
        "distribution": distribution,
        "data-seed": data_seed,
        "epsilon": epsilon,
        "protocol": protocol,
        "repetitions": repetitions,
        "seed": seed,
        "assignment": assignment,
    }
    commands.sweep(
        given,
        spec,
        backend,
        workers,
        output,
        overwrite=overwrite,
        plot=plot,
        save_every=save_every,
        dry_run=dry_run,
        quiet=quiet,
    )


PostprocessOption = Annotated[
    str, option("--postprocess", help="none, clip, clip-normalize or simplex.  (default: clip-normalize)")
]


@app.command(
    epilog="Examples:  gpu-rsfd show results.h5  ·  gpu-rsfd show results.h5 --postprocess none --csv > mse.csv"
)
def show(
    file: Annotated[Path, typer.Argument(help="Results file of a sweep.", show_default=False)],
    postprocess: PostprocessOption = "clip-normalize",
    csv: Annotated[bool, option("--csv", help="Comma-separated values.")] = False,
    json: Annotated[bool, option("--json", help="JSON, with the whole spec.")] = False,
) -> None:
    """Table of mean MSE_avg with its standard error per protocol and epsilon, the best of each column marked."""
    commands.show(file, postprocess, csv=csv, json=json)


@app.command(
    epilog="Examples:  gpu-rsfd plot results.h5  ·  gpu-rsfd plot results.h5 --postprocess none --output fig.pdf  ·  "
    "gpu-rsfd plot --surface --output surface.svg"
)
def plot(
    file: Annotated[Path | None, typer.Argument(help="Results file of a sweep.", show_default=False)] = None,
    postprocess: PostprocessOption = "clip-normalize",
    output: Annotated[
        list[Path] | None,
        option("--output", help="Figure to write, .png, .pdf or .svg; repeatable.  (default: FILE with .png)"),
    ] = None,
    x: Annotated[
        str, option("--x", help="Horizontal axis: auto, epsilon, or users for a sweep over n.  (default: auto)")
    ] = "auto",
    surface: Annotated[
        bool, option("--surface", help="The paper's surface VAR1 - VAR2 over d and k instead; needs no FILE.")
    ] = False,
) -> None:
    """The paper's figure: MSE_avg against epsilon on a log scale, with error bars; or against n, for a sweep over n."""
    commands.plot(file, postprocess, output or [], x, surface=surface)


def fail(line: str, code: int) -> NoReturn:
    print(f"gpu-rsfd: {line}", file=sys.stderr)
    raise SystemExit(code)


def main() -> None:
    """Bad input: one clear line and exit code 2.  Ctrl-C: 130.  What can't be written or computed: 1."""
    try:
        code = app(standalone_mode=False)
    except (ValueError, NotImplementedError) as error:
        fail(str(error), 2)
    except RuntimeError as error:  # a full disk, a lost worker: what is done is safe
        fail(f"{error}\nto continue: {shlex.join(['gpu-rsfd', *sys.argv[1:]])}", 1)
    except BrokenPipeError:  # `gpu-rsfd show … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except Exception as error:
        if type(error).__name__ in ("Abort", "Exit"):
            raise SystemExit(getattr(error, "exit_code", 130)) from None
        if hasattr(error, "format_message"):  # usage errors; without a command, the help has been printed
            if not error.format_message().strip():
                raise SystemExit(2) from None
            fail(f"{error.format_message()} (see gpu-rsfd --help)", 2)
        raise
    raise SystemExit(code if isinstance(code, int) else 0)
