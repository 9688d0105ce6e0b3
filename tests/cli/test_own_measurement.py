"""A measurement of one's own, in Python and by `gpu-rsfd run`: the file, its extension, parts, processes, refusals."""

import runpy
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from command import call, refusal, run

import gpu_rsfd

ROOT = Path(__file__).parents[2]
GROWING = '''
from dataclasses import dataclass
import numpy as np
import gpu_rsfd
@dataclass(frozen=True)
class Growing(gpu_rsfd.Measurement):
    """Support of the first value, times 1 ... steps."""
    steps: int = 3                                   # a field is an option
    arrays = {"support": ("step",)}                  # dimensions after protocol, epsilon, repetition
    columns = {"support": "support of the first value"}
    def coords(self): return {"step": range(1, self.steps + 1)}
    def measure(self, view):
        counts, reporters = view.counts()
        return {"support": counts[..., :1] / reporters[..., :1] * np.arange(1, self.steps + 1)}
'''
SUMMED = '''
from dataclasses import dataclass
import os
import numpy as np
import gpu_rsfd
@dataclass(frozen=True)
class Summed(gpu_rsfd.Measurement):
    """Users who sampled the first attribute, and the processes that counted them."""
    shift: float
    twice: bool = False
    arrays = {"first": (), "processes": ()}
    def measure(self, view):
        found, here = view.sums(first)
        shape = len(view.protocols), len(view.epsilons), 1
        return {"first": np.tile(found * (1 + self.twice) + self.shift, shape), "processes": np.tile(here, shape)}
def first(chunk):
    return (chunk.sampled == 0).sum(), np.array(os.getpid() == PID)
PID = int(os.environ["GPU_RSFD_TEST_PID"]) if "GPU_RSFD_TEST_PID" in os.environ else os.getpid()
'''
SIZE = ["--dataset", "nursery", "--workers", "1", "--quiet", "--no-plot"]
CELLS = ["--protocol", "rsfd-grr,smp-adp", "--epsilon", "1,2", "--repetitions", "7"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """With `mine.py`."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(GROWING)
    return tmp_path


@pytest.fixture(scope="module")
def truth():
    """What `Growing(steps=4)` must record."""
    cells = {"protocols": ["rsfd-grr", "smp-adp"], "epsilons": [1.0, 2.0], "repetitions": 7}
    result = gpu_rsfd.simulate("nursery", **cells)
    return result.counts[..., :1] / result.reporters[..., :1] * np.arange(1, 5)


def test_in_python(folder, truth):
    """The example of the documentation, then more of everything; nothing that is there is made again."""
    space = {"__name__": "mine"}
    exec(GROWING, space)
    cells = {"protocols": ["rsfd-grr", "smp-adp"], "epsilons": [1.0, 2.0], "repetitions": 7, "output": "mine.h5"}
    measurement = space["Growing"](steps=4)
    result = gpu_rsfd.run(measurement, "nursery", **{**cells, "repetitions": 3, "epsilons": [2.0]})["nursery"]
    assert np.array_equal(result.support, truth[:, 1:, :3])
    results = gpu_rsfd.run(measurement, "nursery", **cells)
    assert np.array_equal(results["nursery"].support, truth)
    assert gpu_rsfd.run(measurement, "nursery", **cells).computed == 0
    assert (results["nursery"].dims("support"), list(results["nursery"].coords["step"])) == (
        ("protocol", "epsilon", "repetition", "step"),
        [1, 2, 3, 4],
    )
    with pytest.raises(gpu_rsfd.InputError, match="steps: 4 in the file, 3 asked for"):
        gpu_rsfd.run(space["Growing"](), "nursery", **cells)


@pytest.mark.slow
def test_by_the_command(folder, truth):
    """Resumed, extended, and opened by a process that does not know the class."""
    run("run", "mine.py:Growing", *SIZE, "--steps", "4", "--repetitions", "3", "--epsilon", "2", *CELLS[:2],
        "--output", "mine.h5", cwd=folder)  # fmt: skip
    run("run", *SIZE, *CELLS, "--steps", "4", "--output", "mine.h5", "mine.py:Growing", cwd=folder)
    before = Path("mine.h5").read_bytes()
    again = run(
        "run", "mine.py:Growing", *SIZE[:4], "--no-plot", *CELLS, "--steps", "4", "--output", "mine.h5", cwd=folder
    )
    assert "mine.h5 is complete: nothing to do" in again.stderr
    assert Path("mine.h5").read_bytes() == before
    other = run("run", "mine.py:Growing", *SIZE, *CELLS, "--steps", "5", "--output", "mine.h5", cwd=folder, code=2)
    assert "steps: 4 in the file, 5 asked for" in other.stderr
    Path("mine.py").unlink()
    code = "import gpu_rsfd, json; print(json.dumps(gpu_rsfd.open_results('mine.h5')['nursery'].support.tolist()))"
    read = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    assert np.array_equal(np.array(eval(read.stdout)), truth)


@pytest.mark.slow
def test_parts(folder, truth, monkeypatch):
    for number in (3, 1, 2):
        part = ["--part", f"{number}/3", "--output", "p.h5"]
        assert call(monkeypatch, "run", "mine.py:Growing", *SIZE, *CELLS, "--steps", "4", *part) == 0
    assert call(monkeypatch, "merge", "p.h5") == 0
    assert np.array_equal(gpu_rsfd.open_results("p.h5")["nursery"].support, truth)


def test_help_lists_its_options(folder, monkeypatch, capsys):
    assert call(monkeypatch, "run", "mine.py:Growing", "--help") == 0
    text = capsys.readouterr().out
    assert "Support of the first value, times 1 ... steps." in text
    assert "--steps " in text
    assert call(monkeypatch, "run", "--help") == 0
    assert "--steps N" not in capsys.readouterr().out
    assert call(monkeypatch, "run") in (0, 2)  # as the library has it
    assert "Run a measurement of your own" in capsys.readouterr().out


MODULE = "from gpu_rsfd.measure import view; view.INLINE_POSITIONS = 0; from gpu_rsfd.cli import main"


@pytest.mark.slow
@pytest.mark.parametrize("name,processes", [("summed", 2), ("wave", 1)])
def test_processes(name, processes, tmp_path):
    """Its functions are sent to other processes, unless these would import another module of that name."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / f"{name}.py").write_text(SUMMED)
    first = f"import os; os.environ['GPU_RSFD_TEST_PID'] = str(os.getpid()); {MODULE}"
    words = [*SIZE[:2], "--no-plot", "--workers", "2", "--protocol", "smp-grr", "--epsilon", "1", "--repetitions", "3"]
    given = ["--shift", "0.5", "--twice", "--output", "s.h5", "--part", "1/1"]
    done = run("run", f"sub/{name}.py:Summed", *words, *given, cwd=tmp_path, first=first)
    assert ("is worked on in one process" in done.stderr) == (processes == 1)
    run("merge", "s.h5", cwd=tmp_path)
    result = gpu_rsfd.open_results(tmp_path / "s.h5")["nursery"]
    truth = gpu_rsfd.simulate("nursery", protocols="smp-grr", epsilons=1.0, repetitions=3)
    assert np.array_equal(result.first, 2 * truth.reporters[..., 0] + 0.5)
    assert (result.processes == 0).all() == (processes == 2)


HEAD = "import gpu_rsfd\nfrom dataclasses import dataclass\n"
FILES = {
    "bad.py": "x = 1 /\n",
    "raises.py": "1 / 0\n",
    "taken.py": f"{HEAD}@dataclass(frozen=True)\nclass A(gpu_rsfd.Measurement):\n    seed: int = 3\n"
    '    arrays = {"x": ()}\n    def measure(self, view): ...\n',
    "bins.py": f"{HEAD}@dataclass(frozen=True)\nclass A(gpu_rsfd.Measurement):\n    bins: int = 3\n"
    '    arrays = {"x": ()}\n    def measure(self, view): ...\n',
    "plain.py": f"{HEAD}class A(gpu_rsfd.Measurement):\n    steps: int = 3\n    def measure(self, view): ...\n",
    "empty.py": f"{HEAD}class A(gpu_rsfd.Measurement):\n    def measure(self, view): ...\n",
    "nothing.py": f'{HEAD}class A(gpu_rsfd.Measurement):\n    arrays = {{"x": ()}}\n',
    "later.py": f'{HEAD}class A(gpu_rsfd.Measurement):\n    arrays = {{"x": ()}}\n    def measure(self, view):\n'
    "        return 1 / 0\n",
    "shape.py": f'{HEAD}class A(gpu_rsfd.Measurement):\n    arrays = {{"x": ()}}\n    def measure(self, view):\n'
    '        return {"x": [1, 2]}\n',
    "summed.py": SUMMED,
}


@pytest.mark.parametrize("words,message", [
    (["none.py:Growing"], "none.py does not exist"),
    (["mine.py:Growin"], "mine.py: unknown class 'Growin'; did you mean Growing? available: Growing"),
    (["mine.py"], "measurement=mine.py must be a Python file and a class in it, such as mine.py:Growing"),
    (["mine.py:np"], "mine.py:np is not a subclass of gpu_rsfd.Measurement"),
    (["mine.py:Growing", "--steps", "two"], "steps=two must be a whole number"),
    (["mine.py:Growing", "--step", "2"], "no such option: --step; did you mean --steps?"),
    (["bad.py:A"], "bad.py, line 1: invalid syntax"),
    (["raises.py:A"], "raises.py, line 1: ZeroDivisionError: division by zero"),
    (["taken.py:A"], "the field 'seed' of A is named like an option of sweep; give it another name"),
    (["bins.py:A"], "the field 'bins' of A is named like an option of sweep; give it another name"),
    (["plain.py:A"], "A has fields, but is no dataclass; put @dataclass(frozen=True) before it"),
    (["empty.py:A"], "A.arrays is empty; at least one array is needed"),
    (["nothing.py:A"], "A has no method `measure`"),
    (["later.py:A"], "later.py, line 6: ZeroDivisionError: division by zero"),
    (["shape.py:A"], "A.measure gives 'x' with shape (2,) and dtype int64; numbers of shape (6, 6, 1) are needed"),
    (["summed.py:Summed"], "Summed needs --shift"),
    (["summed.py:Summed", "--shift", "far"], "shift=far must be a number"),
])  # fmt: skip
def test_bad_input(words, message, folder, monkeypatch, capsys):
    for name, text in FILES.items():
        Path(name).write_text(text)
    size = ["--users", "20", "--domain", "2,3", "--output", "r.h5"]
    line = refusal(monkeypatch, capsys, folder, ["run", *words, *size, "--workers", "1", "--no-plot"])[-1]
    assert message in line
    assert not Path("r.h5").exists()


# The examples of the documentation


@pytest.fixture(scope="module")
def page():
    """What the files that the page includes define."""
    files = (ROOT / "examples" / name for name in ("square_wave.py", "linking.py"))
    return {name: value for path in files for name, value in runpy.run_path(str(path)).items()}


def test_the_square_wave(page):
    """The client sends what the server reckons with, no density is more than e^epsilon times another, EM finds it."""
    epsilon, k, n = 1.5, 8, 40_000
    likelihood, edges = page["buckets"](epsilon, k, 64)
    assert np.allclose(likelihood.sum(axis=0), 1)
    assert likelihood.max() / likelihood.min() <= np.exp(epsilon) * (1 + 1e-9)
    rng = np.random.default_rng(5)
    for value in (0, 3, 7):
        seen = np.histogram(page["sent"](np.full(n, (value + 0.5) / k), epsilon, rng), edges)[0]
        assert seen.sum() == n
        expected = n * likelihood[:, value]
        assert ((seen - expected) ** 2 / expected).sum() < 64 + 5 * np.sqrt(2 * 64)
        other = n * likelihood[:, value - 1]  # negative control
        assert ((seen - other) ** 2 / other).sum() > 64 + 5 * np.sqrt(2 * 64)
    data = gpu_rsfd.SyntheticDataset(20_000, (16,), "zipf:1.2", name="numbers")
    options = {"protocols": "smp-grr", "repetitions": 3}
    found = gpu_rsfd.run(page["SquareWave"](), data, epsilons=[0.5, 2.0], **options)["numbers"].distance
    uniform = np.abs(np.cumsum(1 / 16 - data.frequencies)).mean()
    assert (found[0, 1] < found[0, 0]).all()
    assert (found[0, 0] < uniform / 2).all()
    alone = gpu_rsfd.run(page["SquareWave"](), data, epsilons=2.0, **options)["numbers"].distance
    assert np.array_equal(alone[0, 0], found[0, 1]), "another epsilon beside it changes nothing"


def test_re_identification(page):
    """Nobody is found by chance alone, more are found with every round, and all if the reports tell the truth."""
    data = gpu_rsfd.SyntheticDataset(400, (40, 40), name="people")
    options = {"protocols": ["spl-grr", "spl-oue"], "repetitions": 3}
    run = lambda epsilon: gpu_rsfd.run(page["Linked"](rounds=4), data, epsilons=epsilon, **options)["people"]  # noqa: E731
    chance, some, all_of_it = (run(epsilon).found for epsilon in (0.01, 4.0, 24.0))
    assert chance.shape == (2, 1, 3, 4)
    assert chance.mean() < 0.02
    assert (np.diff(some.mean(axis=2)) > 0).all()
    profiles = [data.column(j, 0, data.n) for j in range(2)]
    distinct = len({*zip(*profiles, strict=True)}) / data.n
    assert abs(all_of_it[0].mean() - distinct) < 0.1


@pytest.mark.parametrize("name", ["users", "bins", "repetitions", "output"])
def test_a_field_named_like_an_option_is_refused_in_python(name):
    def measure(self, view):
        raise AssertionError

    taken = {"__annotations__": {name: int}, name: 3, "arrays": {"x": ()}, "measure": measure}
    kind = dataclass(frozen=True)(type("Taken", (gpu_rsfd.Measurement,), taken))
    with pytest.raises(gpu_rsfd.InputError, match=f"the field '{name}' of Taken is named like an option of sweep"):
        gpu_rsfd.run(kind(), "nursery")


@pytest.mark.parametrize("name", ["error", "columns", "n", "not a name"])
def test_an_array_that_would_hide_a_part_of_the_result_is_refused(name):
    def measure(self, view):
        raise AssertionError

    kind = dataclass(frozen=True)(
        type("Hiding", (gpu_rsfd.Measurement,), {"arrays": {name: ()}, "measure": measure, "__annotations__": {}})
    )
    with pytest.raises(gpu_rsfd.InputError, match=f"Hiding.arrays names '{name}', which can't be the name of an array"):
        gpu_rsfd.run(kind(), "nursery")


@pytest.mark.slow
def test_a_measurement_without_columns_has_no_figure_and_no_page(tmp_path, monkeypatch, capsys):
    text = "import gpu_rsfd\n\n\nclass Bare(gpu_rsfd.Measurement):\n    arrays = {'x': ()}\n\n"
    text += "    def measure(self, view):\n        return {'x': view.counts()[1][..., 0]}\n"
    (tmp_path / "bare.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    size = ["--users", "50", "--domain", "2", "--epsilon", "1", "--repetitions", "2", "--protocol", "smp-grr"]
    assert call(monkeypatch, "run", "bare.py:Bare", *size, "--output", "b.h5", "--no-plot", "--quiet") == 0
    for words, why in (
        (["page", "b.h5"], "a page needs the results of a sweep"),
        (["plot", "b.h5"], "without columns"),
    ):
        (line,) = refusal(monkeypatch, capsys, tmp_path, words)
        assert why in line
