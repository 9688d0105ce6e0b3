"""A script outside the package: its protocols run on every engine, and its file opens where it is not known."""

import os
import subprocess
import sys
from pathlib import Path

import native_builds
import numpy as np
import pytest
from command import run
from cuda_standin import needs_compiler

import gpu_rsfd
from gpu_rsfd import InputError, SyntheticDataset
from gpu_rsfd.protocols.own import load_protocols
from gpu_rsfd.theory import expected_mse

ROOT = Path(gpu_rsfd.__file__).parents[1]
EXAMPLE = ROOT / "examples" / "own_protocol.py"
DATA = SyntheticDataset(2000, (3, 5), "zipf:1.1", seed=1, name="people")
OPTIONS = {"epsilons": [0.5, 2.0], "repetitions": 4, "seed": 5}
COPIED = ("rsfd-oue-z", "rsfd-grr")  # what mine and values are

SCRIPT = """
import math, sys
import gpu_rsfd

oue = gpu_rsfd.protocol("mine", solution="rsfd-z", bits=lambda e, k: (0.5, 1 / (math.exp(e) + 1)), label="Mine!")
grr = gpu_rsfd.protocol("values", solution="rsfd-r", keep=lambda e, k: (math.exp(e) - 1) / (math.exp(e) + k - 1))
data = gpu_rsfd.SyntheticDataset(2000, (3, 5), "zipf:1.1", seed=1, name="people")

if __name__ == "__main__":
    where = {"workers": 2} if sys.argv[2] == "processes" else {"cluster": "local:2"}
    gpu_rsfd.sweep(data, protocols=[oue, grr], epsilons=[0.5, 2.0], repetitions=4, seed=5, output=sys.argv[1], **where)
"""


@pytest.fixture(scope="module")
def right():
    return gpu_rsfd.simulate(DATA, protocols=COPIED, **OPTIONS, workers=1)


def run_script(folder, where):
    """The file that the script writes; its functions exist in its own process alone."""
    (folder / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "script.py", "own.h5", where]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (folder / "script.py").unlink()
    return folder / "own.h5"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return run_script(tmp_path_factory.mktemp("script"), "processes")


def check_counts(result, right):
    assert np.array_equal(result.counts, right.counts)
    assert np.array_equal(result.reporters, right.reporters)


@pytest.mark.slow
def test_two_processes(file, right):
    check_counts(gpu_rsfd.open_results(file)["people"], right)


@pytest.mark.slow
def test_a_dask_cluster(tmp_path, right):
    pytest.importorskip("distributed")
    check_counts(gpu_rsfd.open_results(run_script(tmp_path, "cluster"))["people"], right)


@native_builds.needs_compiler
def test_the_native_backend(right):
    found = load_protocols(EXAMPLE)
    check_counts(
        gpu_rsfd.simulate(DATA, protocols=[found["mine"], found["values"]], **OPTIONS, backend="native"), right
    )


@needs_compiler
def test_the_cuda_standin(standin, right):
    found = load_protocols(EXAMPLE)
    check_counts(gpu_rsfd.simulate(DATA, protocols=[found["mine"], found["values"]], **OPTIONS, backend="cupy"), right)


def test_its_file_describes_itself(file, right):
    result = gpu_rsfd.open_results(file)["people"]
    assert (result.protocols, result.look("mine").label) == (("mine", "values"), "Mine!")
    assert np.array_equal(result.estimates(), right.estimates())
    assert result.mechanism("mine", 2.0, 1).loss == right.mechanism("rsfd-oue-z", 2.0, 1).loss
    assert not result.mechanism("mine", 2.0, 1).claimed


@pytest.mark.slow
def test_its_file_is_shown_where_the_script_is_not_known(file, tmp_path):
    assert "Mine!" in run("show", file, cwd=tmp_path).stdout


@pytest.mark.slow
def test_its_file_is_drawn_where_the_script_is_not_known(file, tmp_path):
    run("plot", file, "--output", "own.png", cwd=tmp_path)
    run("page", file, "--output", "own.html", cwd=tmp_path)
    assert "Mine!" in (tmp_path / "own.html").read_text(encoding="utf-8")


def test_a_protocol_that_was_redefined_is_refused(tmp_path):
    options = {"epsilons": [0.5, 2.0], "repetitions": 2, "output": tmp_path / "own.h5", "workers": 1}

    def define(q):
        return gpu_rsfd.protocol("mine", solution="smp", bits=lambda e, k: (0.5, q if e > 1 and k > 3 else 0.25))

    before = gpu_rsfd.sweep(DATA, protocols=[define(0.2), "smp-grr"], **options)
    content = (tmp_path / "own.h5").read_bytes()
    with pytest.raises(InputError) as error:
        gpu_rsfd.sweep(DATA, protocols=[define(0.125), "smp-grr"], **options)
    for words in ("mine is another protocol in the file", "epsilon=2", "people", "a2", "bits(8388608, 2097152)"):
        assert words in str(error.value).replace(DATA.names[1], "a2"), error.value
    assert (tmp_path / "own.h5").read_bytes() == content
    again = gpu_rsfd.sweep(
        DATA, protocols=[define(0.2), "smp-grr"], **{**options, "repetitions": 3}
    )  # the same integers
    assert np.array_equal(again["people"].counts[:, :, :2], before["people"].counts)
    other = [gpu_rsfd.protocol("renamed", solution="smp", bits=lambda e, k: (0.5, 0.3)), define(0.2), "smp-grr"]
    assert gpu_rsfd.sweep(DATA, protocols=other, **{**options, "repetitions": 3})["people"].protocols[0] == "renamed"


@pytest.mark.slow
def test_the_example(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(EXAMPLE), "own.h5"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[-4:]] == ["mine", "values", "either", "smp-adp"]
    assert "loss: equals that of all reports" in done.stdout
    mse = gpu_rsfd.open_results(tmp_path / "own.h5")["people"].mse().mean(axis=-1)
    theory = expected_mse("rsfd-oue-z", 2.0, 20_000, (3, 5, 40))
    assert 0.2 * theory < mse[0, 2] < 5 * theory
