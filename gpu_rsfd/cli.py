"""The command line: one call per command."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import platform
import sys
import traceback
from pathlib import Path
from typing import Annotated, NoReturn

import numpy as np
import typer

from gpu_rsfd import __version__, commands
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.flags import (
    DATA,
    OUTPUT,
    SIMULATION,
    Assignment,
    Backend,
    Bins,
    Columns,
    DataDir,
    DataSeed,
    DatasetNames,
    Delimiter,
    DeviceNumbers,
    Distribution,
    Domain,
    DomainFile,
    DryRun,
    Epsilon,
    Missing,
    Overwrite,
    Plot,
    Postprocess,
    Protocol,
    Quiet,
    Repetitions,
    Sampler,
    SaveEvery,
    Seed,
    SpecFile,
    Text,
    Texts,
    Users,
    Workers,
    Yes,
    option,
)
from gpu_rsfd.helptext import Command, Group

# What the machine refuses, whatever the program does: full, read-only or broken disks, permissions, limits.
REFUSALS = {
    *(errno.ENOSPC, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM),
    *(errno.ENAMETOOLONG, errno.ELOOP, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN),
    *([errno.EDQUOT] if hasattr(errno, "EDQUOT") else []),
}

app = typer.Typer(
    name="gpu-rsfd",
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"gpu-rsfd {__version__}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True, metavar=""),
    ] = False,
) -> None:
    """Simulate multidimensional frequency estimation under local differential privacy: RS+FD, Spl and Smp."""


@app.command(
    epilog="Examples:  gpu-rsfd sweep  ·  gpu-rsfd sweep --dataset syn3 --dataset adult --repetitions 10  ·  "
    "gpu-rsfd sweep --users 1e4,1e5,1e6 --domain 10x5 --epsilon ln3 --output over_n.h5  ·  "
    "gpu-rsfd sweep --dataset people.csv --columns sex,age --bins age=10 --output people.h5"
)
def sweep(
    dataset: DatasetNames = None,
    data_dir: DataDir = None,
    users: Users = None,
    domain: Domain = None,
    distribution: Distribution = None,
    data_seed: DataSeed = None,
    delimiter: Delimiter = None,
    columns: Columns = None,
    bins: Bins = None,
    missing: Missing = None,
    domain_file: DomainFile = None,
    epsilon: Epsilon = None,
    protocol: Protocol = None,
    repetitions: Repetitions = None,
    seed: Seed = None,
    assignment: Assignment = None,
    sampler: Sampler = None,
    spec: SpecFile = None,
    backend: Backend = "auto",
    workers: Workers = None,
    device: DeviceNumbers = None,
    output: Annotated[
        Path,
        option(
            "--output",
            "Results file; the same command continues it.  --output syn3.h5  (default: results.h5)",
            OUTPUT,
            "FILE",
        ),
    ] = Path("results.h5"),
    overwrite: Overwrite = False,
    plot: Plot = True,
    save_every: SaveEvery = 2.0,
    dry_run: DryRun = False,
    yes: Yes = False,
    quiet: Quiet = False,
) -> None:
    """Simulate data sets x protocols x epsilons x repetitions into one HDF5 file, with a table and a figure."""
    given = {
        "dataset": dataset,
        "data-dir": data_dir,
        "users": users,
        "domain": domain,
        "distribution": distribution,
        "data-seed": data_seed,
        "delimiter": delimiter,
        "columns": columns,
        "bins": bins,
        "missing": missing,
        "domain-file": domain_file,
        "epsilon": epsilon,
        "protocol": protocol,
        "repetitions": repetitions,
        "seed": seed,
        "assignment": assignment,
        "sampler": sampler,
    }
    commands.sweep(
        given, spec, commands.Run(backend, workers, device, output, overwrite, plot, save_every, dry_run, yes, quiet)
    )


@app.command(epilog="Examples:  gpu-rsfd paper --quick  ·  gpu-rsfd paper --data-dir originals/ --output with_rows.h5")
def paper(
    quick: Annotated[bool, option("--quick", "10 repetitions instead of 100.", SIMULATION)] = False,
    data_dir: DataDir = None,
    data_seed: DataSeed = None,
    epsilon: Epsilon = None,
    protocol: Protocol = None,
    repetitions: Repetitions = None,
    seed: Seed = None,
    assignment: Annotated[
        Text,
        option(
            "--assignment",
            "uniform, or as the authors.  --assignment uniform  (default: balanced)",
            SIMULATION,
            "NAME",
        ),
    ] = None,
    sampler: Sampler = None,
    backend: Backend = "auto",
    workers: Workers = None,
    device: DeviceNumbers = None,
    output: Annotated[
        Path, option("--output", "Results file; the same command continues it.  (default: paper.h5)", OUTPUT, "FILE")
    ] = Path("paper.h5"),
    overwrite: Overwrite = False,
    plot: Plot = True,
    save_every: SaveEvery = 2.0,
    dry_run: DryRun = False,
    yes: Yes = False,
    quiet: Quiet = False,
) -> None:
    """Reproduce the paper: its ten data sets, six epsilons, six methods; a figure for each and one page of all."""
    given = {
        "data-dir": data_dir,
        "data-seed": data_seed,
        "epsilon": epsilon,
        "protocol": protocol,
        "repetitions": repetitions,
        "seed": seed,
        "assignment": assignment,
        "sampler": sampler,
    }
    commands.paper(
        given, quick, commands.Run(backend, workers, device, output, overwrite, plot, save_every, dry_run, yes, quiet)
    )


@app.command(
    epilog="Examples:  gpu-rsfd plan --users 1e6 --domain 10x5,100 --target-rmse 0.01  ·  "
    "gpu-rsfd plan --dataset adult --epsilon 1 --json  ·  "
    "gpu-rsfd plan --dataset people.csv --columns sex,age --bins age=10 --users 1e6 --against population"
)
def plan(
    dataset: Annotated[
        Texts,
        option("--dataset", "Plan for the frequencies of these data sets or files; repeatable.  --dataset adult", DATA),
    ] = None,
    data_dir: DataDir = None,
    users: Annotated[
        Texts,
        option(
            "--users",
            "Number of users; with --dataset, its frequencies with another number of users.  --users 1e6  "
            "(default: 10,000, or the data set's own)",
            DATA,
        ),
    ] = None,
    domain: Annotated[Texts, option("--domain", "Domain sizes.  --domain 10,10,20  or  --domain 10x5", DATA)] = None,
    distribution: Annotated[
        Text, option("--distribution", "Law of the values: uniform or zipf:S.  (default: uniform)", DATA)
    ] = None,
    columns: Columns = None,
    bins: Bins = None,
    missing: Missing = None,
    domain_file: DomainFile = None,
    epsilon: Epsilon = None,
    protocol: Protocol = None,
    assignment: Annotated[
        Text, option("--assignment", "uniform or balanced (equal groups).  (default: uniform)", SIMULATION)
    ] = None,
    target_rmse: Annotated[
        float | None, option("--target-rmse", "Also the users needed for this error.  --target-rmse 0.01")
    ] = None,
    against: Annotated[
        str,
        option(
            "--against",
            "The truth that the error is measured from: these users' own frequencies (users), or those of the "
            "population that they are drawn from (population).  --against population  (default: users)",
        ),
    ] = "users",
    postprocess: Annotated[str, option("--postprocess", "none or clip.  (default: none)")] = "none",
    json: Annotated[bool, option("--json", "JSON instead of a table.")] = False,
) -> None:
    """What to expect before a collection: error per protocol, users needed for a target, bits sent per user."""
    given = {
        "dataset": dataset,
        "data-dir": data_dir,
        "users": users,
        "domain": domain,
        "distribution": distribution,
        "columns": columns,
        "bins": bins,
        "missing": missing,
        "domain-file": domain_file,
        "epsilon": epsilon,
        "protocol": protocol,
        "assignment": assignment,
    }
    commands.plan(given, target_rmse, postprocess, against, json=json)


@app.command(
    epilog="Examples:  gpu-rsfd show results.h5  ·  gpu-rsfd show results.h5 --postprocess none --csv > mse.csv"
)
def show(
    file: Annotated[Path, typer.Argument(help="Results file of a sweep.", show_default=False, metavar="FILE")],
    postprocess: Postprocess = "clip-normalize",
    csv: Annotated[bool, option("--csv", "Comma-separated values.")] = False,
    json: Annotated[bool, option("--json", "JSON, with the whole spec.")] = False,
) -> None:
    """Table of mean MSE_avg with its standard error per protocol and epsilon, the best of each column marked."""
    commands.show(file, postprocess, csv=csv, json=json)


@app.command(
    epilog="Examples:  gpu-rsfd plot results.h5  ·  gpu-rsfd plot results.h5 --postprocess none --output fig.pdf  ·  "
    "gpu-rsfd plot --surface --output surface.svg"
)
def plot(
    file: Annotated[
        Path | None, typer.Argument(help="Results file of a sweep.", show_default=False, metavar="FILE")
    ] = None,
    postprocess: Annotated[
        Text,
        option(
            "--postprocess",
            "none, clip, clip-normalize, simplex.  --postprocess none  (default: clip-normalize)",
            None,
            "NAME",
        ),
    ] = None,
    output: Annotated[
        list[Path] | None,
        option("--output", "Figure to write, .png, .pdf or .svg; repeatable.  (default: FILE with .png)"),
    ] = None,
    x: Annotated[
        str, option("--x", "Horizontal axis: auto, epsilon, or users for a sweep over n.  (default: auto)")
    ] = "auto",
    attribute: Annotated[
        Text, option("--attribute", "Estimated and true frequencies of an attribute's values instead.  --attribute sex")
    ] = None,
    dataset: Annotated[
        Texts, option("--dataset", "Only this data set; repeatable.  --dataset syn1  (default: all, a panel each)")
    ] = None,
    each: Annotated[bool, option("--each", "A figure for each data set: FILE-NAME.png.")] = False,
    surface: Annotated[
        bool, option("--surface", "The paper's surface VAR1 - VAR2 over d and k instead; needs no FILE.")
    ] = False,
    overwrite: Annotated[
        bool, option("--overwrite", "Replace figures that gpu-rsfd did not make, too.  --output mine.png --overwrite")
    ] = False,
) -> None:
    """The paper's figure: MSE_avg against epsilon on a log scale, with error bars; or against n, for a sweep over n."""
    commands.plot(
        file,
        postprocess,
        output or [],
        x,
        attribute,
        surface=surface,
        datasets=dataset or [],
        each=each,
        overwrite=overwrite,
    )


@app.command(epilog="Examples:  gpu-rsfd doctor  ·  gpu-rsfd doctor --self-test")
def doctor(
    self_test: Annotated[
        bool, option("--self-test", "Compare each backend with the reference, integer by integer; tell its speed.")
    ] = False,
) -> None:
    """Versions, CUDA devices, which backend `auto` takes and why; ends non-zero if a self-test fails."""
    if not commands.doctor(self_test=self_test):
        raise typer.Exit(1)


for _command in app.registered_commands:
    _command.cls = Command


def fail(line: str, code: int) -> NoReturn:
    print(f"gpu-rsfd: {line}", file=sys.stderr)
    raise SystemExit(code)


def bug(error: BaseException) -> NoReturn:
    """Nothing that a user did: all that is needed to find it."""
    traceback.print_exception(error)
    where = f"{__version__}, Python {platform.python_version()}, NumPy {np.__version__}, {platform.platform()}"
    fail(f"this is a bug in gpu-rsfd ({where}); please report it with the lines above", 1)


def main() -> None:
    """Bad input: one clear line and exit code 2.  Ctrl-C: 130.  What can't be written or computed: 1.

    Anything else is a bug, and shows its traceback.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # names that the terminal can't show
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except InputError as error:
        fail(str(error), 2)
    except RunError as error:
        fail(str(error), 1)
    except BrokenPipeError:  # `gpu-rsfd show … | head`
        _give_up_output()
        raise SystemExit(1) from None
    except MemoryError as error:
        fail(f"out of memory{f': {error}' if str(error) else ''}", 1)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except OSError as error:
        if error.errno not in REFUSALS:
            bug(error)
        _give_up_output()
        fail(f"{error.filename or 'output'}: {error.strerror}", 1)
    except Exception as error:
        if type(error).__name__ in ("Abort", "Exit") and not isinstance(error.__cause__, EOFError):
            raise SystemExit(getattr(error, "exit_code", 130)) from None
        if not hasattr(error, "format_message"):
            bug(error)
        if not error.format_message().strip():  # no command was given, and the help has been printed
            raise SystemExit(2) from None
        fail(f"{error.format_message()} (see gpu-rsfd --help)", 2)
    raise SystemExit(code if isinstance(code, int) else 0)


def _give_up_output() -> None:
    """What is still to be written goes nowhere: Python would try again at its end, and complain."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
