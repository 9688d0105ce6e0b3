"""Signals are noted when they come, and end the work at the next place where that is safe."""

import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from command import PYTHON, run
from native_builds import needs_compiler

import gpu_rsfd
from gpu_rsfd import errors
from gpu_rsfd.backends.cpu.backend import NumpyBackend
from gpu_rsfd.backends.pool import Pool
from gpu_rsfd.errors import Terminated
from gpu_rsfd.planning import plan_for
from gpu_rsfd.spec import Spec

SIGNALS = [signal.SIGHUP, signal.SIGTERM, signal.SIGINT]
SWEEP = ["sweep", "--users", "300", "--domain", "3,4", "--epsilon", "1", "--protocol", "rsfd-grr", "--repetitions", "3",
         "--workers", "1", "--no-plot", "--output", "r.h5"]  # fmt: skip
# A function that is called by others' code gets signals, and notices exceptions that are raised in it.
STRUCK = """
import os, signal, sys, time
sys.argv[0] = "gpu-rsfd"
from gpu_rsfd.cli import main
def struck(function, *numbers):
    def called(*given, **options):
        while left:
            try:
                os.kill(os.getpid(), left.pop(0))
                sum(range(1000))  # the handler has been called by now
            except BaseException as error:
                print("raised in foreign code:", repr(error), flush=True)
                raise
        return function(*given, **options)
    left = list(numbers)
    return called
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
def test_no_exception_in_a_figure(tmp_path, number):
    """Matplotlib raises others in their place; nothing is half written."""
    run(*SWEEP, cwd=tmp_path)
    place = "import matplotlib.figure as f; f.Figure.draw"
    first = f"{STRUCK}\n{place} = struck(f.Figure.draw, {int(number)})"
    done = run("plot", "r.h5", cwd=tmp_path, first=first, code=128 + number)
    assert (done.stdout, done.stderr) == ("", "")
    assert [path.name for path in tmp_path.iterdir()] == ["r.h5"]


@pytest.mark.slow
@pytest.mark.parametrize("place", ["files.FileImage.write", "threading.Condition.wait", "h5py.File.close", "os.fsync"])
@pytest.mark.parametrize("numbers", [[signal.SIGHUP], [signal.SIGTERM, signal.SIGINT]])
def test_no_exception_while_a_file_is_written(tmp_path, place, numbers):
    """One signal, or one after the other: the first one's exit code, one line, and the same numbers in the end."""
    module = place.partition(".")[0]
    where = "from gpu_rsfd import files" if module == "files" else f"import {module}"
    first = f"{STRUCK}\n{where}\n{place} = struck({place}, *{[int(n) for n in numbers]})"
    done = run(*SWEEP, "--quiet", "--save-every", "0", cwd=tmp_path, first=first, code=128 + numbers[0])
    assert done.stdout == ""
    assert done.stderr.count("terminated; ") == 1
    assert "Traceback" not in done.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"r.h5", "r.h5.journal"}
    run(*SWEEP, "--quiet", cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["r.h5"]
    truth = gpu_rsfd.simulate(
        gpu_rsfd.SyntheticDataset(300, (3, 4)), epsilons=1, protocols="rsfd-grr", repetitions=3, workers=1
    )
    (found,) = gpu_rsfd.open_results(tmp_path / "r.h5").values()
    assert np.array_equal(found.counts, truth.counts)


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
def test_exit_codes_of_any_command(tmp_path, number):
    """Also where nothing is run that could be kept."""
    first = f"{STRUCK}\nfrom gpu_rsfd.running import experiments"
    first += f"\nexperiments.merge = struck(lambda *_: time.sleep(60), {int(number)})"
    done = run("merge", "r.h5", cwd=tmp_path, first=first, code=128 + number)
    assert (done.stdout, done.stderr) == ("", "")


INTERRUPTED = """
import os, signal, sys
sys.argv = ['gpu-rsfd', 'sweep']
class Finder:
    def find_spec(self, name, *_):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from gpu_rsfd.cli import main
main()
"""


@pytest.mark.parametrize("name", ["gpu_rsfd.cli.run", "gpu_rsfd.cli.program", "typer"])
def test_ctrl_c_while_it_is_imported(tmp_path, name):
    done = subprocess.run([sys.executable, "-c", INTERRUPTED.format(name=name)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


PATIENT = """
import os, signal, time
from gpu_rsfd import errors
signal.signal(signal.SIGTERM, errors.note)
with errors.unfinished():
    for wait in (0, 0, errors.IMPATIENT + 0.01):
        time.sleep(wait)
        os.kill(os.getpid(), signal.SIGTERM)
        print("alive", flush=True)
"""


@pytest.mark.slow
def test_a_second_signal_ends_what_takes_too_long():
    """Two at once are one; one that is not heeded for a second is followed by the end."""
    done = subprocess.run([*PYTHON, "-c", PATIENT], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (143, "alive\nalive\n", "")


# ------------------------------------------------------------------------------------- whatever is waited for in a run


@pytest.fixture
def noted():
    """A signal comes while something is unfinished: at once, or after some seconds."""

    def note(seconds):
        threading.Timer(seconds, errors.note, (signal.SIGINT,)).start()

    errors._unfinished.append(None)
    yield note
    errors._unfinished.pop()
    errors._noted.clear()


def asleep(columns):
    time.sleep(600)


@pytest.mark.slow
def test_processes_are_not_waited_for(noted):
    pool = Pool(2)
    noted(0.5)
    with pytest.raises(Terminated):
        list(pool.map(gpu_rsfd.SyntheticDataset(10, (2,)), asleep, [(), ()]))
    assert pool._executor is None


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("users,repetitions", [(10**9, 1), (10**6, 2000)])  # while they are drawn, and counted
@pytest.mark.parametrize("backend", ["native", "numpy"])
def test_hours_are_not_waited_for(noted, backend, users, repetitions):
    from gpu_rsfd.backends.native.backend import NativeBackend

    data = gpu_rsfd.SyntheticDataset(users, (100,) * 10)
    spec = Spec.of(protocols=["rsfd-oue-z", "smp-hr"], epsilons=[1.0], repetitions=range(repetitions))
    with (NativeBackend if backend == "native" else NumpyBackend)(2) as counting:
        noted(0.3)
        with pytest.raises(Terminated):
            counting.count(plan_for(spec, data), data, 0, range(repetitions))


def test_a_journal_is_not_read_to_its_end(noted, tmp_path):
    gpu_rsfd.sweep(gpu_rsfd.SyntheticDataset(50, (2,)), output=tmp_path / "r.h5", repetitions=4, part=(1, 1))
    errors.note(signal.SIGTERM)
    with pytest.raises(Terminated) as ended:
        gpu_rsfd.merge(tmp_path / "r.h5")
    assert ended.value.number == signal.SIGTERM
    assert [path.name for path in tmp_path.iterdir()] == ["r.h5.part-1-of-1"]
