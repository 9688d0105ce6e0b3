"""Every snippet of the documentation is run as it stands, in its order: of pages, docstrings and `--help`."""

import doctest
import importlib
import json
import re
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from clone import ROOT
from snippets import NOT_HERE, Page, snippets

import gpu_rsfd
from gpu_rsfd.cli.commands import COMMANDS, SEPARATOR, load

PAGES = {
    path.stem: path.read_text("utf-8")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md"))
}
PACKAGE = Path(gpu_rsfd.__file__).parent
DOCTESTS = [path for path in PACKAGE.rglob("*.py") if ">>>" in path.read_text("utf-8")]
SMALL = "gpu-rsfd {} --users 300 --domain 4x2 --epsilon ln2,1 --repetitions 3 --no-plot --output {}"
DOMAIN = {"sex": ["female", "male", "other"], "smokes": ["no", "yes"]}
DOMAIN["city"] = ["Besançon", "Dijon", "Lyon", "Metz", "Nancy", "elsewhere"]
SPEC = 'users = 2000\ndomain = "4x3"\nepsilon = 1\nrepetitions = 20\n'


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A text's snippets; afterwards all of them were run."""
    pages = []

    def opened(text):
        pages.append(Page(text, tmp_path))
        monkeypatch.chdir(pages[0].folder)
        monkeypatch.syspath_prepend(pages[0].folder)
        return pages[0]

    with mock.patch.dict(gpu_rsfd.METRICS), mock.patch.dict(gpu_rsfd.POSTPROCESS):
        yield opened
    for page in pages:
        page.stop()


# What a page reckons with


def aggregate(page):
    data = gpu_rsfd.SyntheticDataset(300, (3, 6, 2))
    page.names["reports"] = gpu_rsfd.reports(data, "rsfd-grr", 1.0, guarantee="user")
    page.run()


def api(page):
    page.names["gpu_rsfd"] = gpu_rsfd
    page.run()


def clusters(page):
    """Its workers are as many as two cores can have, its scheduler is open to this machine alone."""
    pytest.importorskip("distributed")

    def counted():
        (result,) = gpu_rsfd.open_results("results.h5").values()
        right = gpu_rsfd.simulate(gpu_rsfd.SyntheticDataset(2000, (4,) * 3), epsilons=1.0, repetitions=20)
        assert np.array_equal(result.counts, right.counts)
        Path("results.h5").unlink()

    Path("sweep.toml").write_text(SPEC)
    page.run(until="gpu-rsfd merge")
    page.shell(page.take("gpu-rsfd merge results.h5 "), code=1)
    assert "missing" in page.errors
    page.run(until="scripts/install cluster")
    counted()
    head = "--host 127.0.0.1 --port 0 --no-dashboard"
    page.changes |= {"dask scheduler --sch": f"dask scheduler {head} --sch", "--nworkers 16": "--nworkers 2"}
    page.start(page.take("dask scheduler"))
    page.shell("until [ -s scheduler.json ]; do sleep 0.1; done")
    page.changes["tcp://head:8786"] = json.loads(Path("scheduler.json").read_text())["address"]
    page.start(page.take("dask worker"))
    page.run(until="gpu-rsfd sweep --cluster tcp")
    for start in ("gpu-rsfd sweep --cluster tcp", "gpu-rsfd sweep --cluster scheduler.json"):
        Path("results.h5").unlink()
        page.shell(page.take(start))
        assert "Dask cluster of 2 threads" in page.errors
    page.run(until="CUDA_VISIBLE_DEVICES=0")
    page.start(page.take("CUDA_VISIBLE_DEVICES=0"))  # that it counts on a GPU: tests/backends/test_cluster.py
    page.shell(
        "python -c 'from distributed import Client\nClient(scheduler_file=\"scheduler.json\").wait_for_workers(3, 60)'"
    )
    page.stop()
    Path("results.h5").unlink()
    page.run(until="{literalinclude} ../examples/dask-tls.sh")
    counted()
    assert not [*Path().glob("scheduler-*")]
    page.run()
    counted()
    assert "tls://" in page.errors
    assert "tcp://" not in page.errors
    assert Path("rsfd.key").stat().st_mode & 0o077 == 0


def collect(page):
    """Reports come from a survey, on two days, and from one user of the collection that is made in Python."""
    Path("domain.json").write_text(json.dumps(DOMAIN), encoding="utf-8")
    Path("survey.py").write_text(
        "import gpu_rsfd, json\n"
        "client = gpu_rsfd.Client('collection.json')\n"
        "answers = {'sex': 'female', 'age': 41, 'city': 'Dijon', 'smokes': 'no'}\n"
        "for user in range(300):\n"
        "    print(json.dumps({**client.randomise(answers), 'user': user}))\n"
    )
    page.run(until="gpu-rsfd aggregate collection.json")
    count = page.left[0][1]
    page.run(until="gpu-rsfd aggregate monday.state")
    page.shell("python survey.py > tuesday.jsonl\n" + count.replace("monday", "tuesday").replace("--id user ", ""))
    page.run(until="import gpu_rsfd")
    assert Path("shares.html").exists()
    Path("collection.json").unlink()
    page.run(until="client = ")
    sent = gpu_rsfd.Client("collection.json").randomise({"sex": "male", "age": 7, "smokes": "daily"})
    Path("monday.jsonl").write_text(json.dumps(sent))
    page.run()
    assert page.names["state"].aggregate().n == 1


def decision(page):
    page.run()
    assert page.printed == f"{page.names['decision']}\n"
    assert page.names["decision"].reached


def metrics(page):
    data = gpu_rsfd.SyntheticDataset(500, (12, 12), name="nursery")
    (result,) = gpu_rsfd.sweep(data, epsilons=[1.0, 2.0], repetitions=5, output="results.h5").values()
    page.names |= {"gpu_rsfd": gpu_rsfd, "result": result}
    page.run()
    assert {"top", "threshold"} <= {*gpu_rsfd.METRICS, *gpu_rsfd.POSTPROCESS}


def privacy(page):
    page.shell(SMALL.format("sweep", "results.h5"))
    page.run()


def pypi(page):
    """Without what is needed, which is here already; the commands then are those that were installed."""
    if not find_spec("pip") or not find_spec("setuptools"):
        pytest.skip("needs pip and setuptools")
    for name in ("gpu_rsfd", "docs/pypi.md", "LICENSE", "README.md"):
        page.shell(f"mkdir -p docs && cp -r {ROOT}/{name} {name}")
    page.environment |= {"PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1"}
    page.environment |= {"PIP_TARGET": "site", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    page.run(until="gpu-rsfd")
    assert "does not provide the extra" not in page.errors
    page.shell("rm -r gpu_rsfd")
    page.environment["PYTHONPATH"] = str(Path("site").resolve())
    page.run()
    page.shell("python -c 'import gpu_rsfd; print(gpu_rsfd.__file__)'")
    assert page.printed.startswith(str(Path("site").resolve()))


def results_file(page):
    pytest.importorskip("h5netcdf")
    data = gpu_rsfd.SyntheticDataset(500, (12, 12), name="syn1")
    gpu_rsfd.sweep(data, epsilons=[1.0, 2.0], repetitions=5, output="results.h5")
    page.run()


def tutorial(page):
    """Its figures have no Type 3 font."""
    page.run(until="from dataclasses")
    assert {"nursery.png", "nursery.pdf", "sizes.png"} <= {path.name for path in Path().iterdir()}
    for name in ("nursery.pdf", "both.pdf"):
        pdf = Path(name).read_bytes()
        assert b"/Type0" in pdf
        assert b"/Subtype /Type3" not in pdf
    page.run()


PREPARED = (aggregate, api, clusters, collect, decision, metrics, privacy, pypi, results_file, tutorial)
BY_NAME = {function.__name__.replace("_", "-"): function for function in PREPARED}


@pytest.mark.slow
@pytest.mark.filterwarnings("default::DeprecationWarning", "default::ResourceWarning")
@pytest.mark.parametrize("name", [name for name, text in PAGES.items() if [*snippets(text)]])
def test_a_page(name, run):
    page = run(PAGES[name])
    BY_NAME.get(name, Page.run)(page)
    assert not page.left


def test_what_is_found():
    text = "a\n\n    one\n    two  # x\n\n```\nprinted\n    more\n```\n\n```python\nx = 1\n```\n\n- list\n"
    text += "- `gpu-rsfd show\n  x.h5`, `gpu-rsfd show`\n"
    found = [("shell", "one"), ("shell", "two # x"), ("output", "printed\n    more\n"), ("python", "x = 1\n")]
    assert [*snippets(text)] == [*found, ("shell", "gpu-rsfd show x.h5")]
    assert len(PAGES["README"].splitlines()) < 150


@pytest.mark.slow
@pytest.mark.parametrize("text,why", [
    ("    gpu-rsfd show nothing.h5\n", "nothing.h5 does not exist"),
    ("Say `gpu-rsfd show nothing.h5`.\n", "nothing.h5 does not exist"),
    ("```python\nassert 1 > 2, 'less'\n```\n", "less"),
    ("    gpu-rsfd --version\n\n```\ngpu-rsfd 99\n```\n", "the page says 'gpu-rsfd 99'"),
    ("~~~fortran\nend\n~~~\n", "no way to run a snippet of kind 'fortran'"),
    ("    scripts/install pages\n", "unknown extra 'pages'"),
])  # fmt: skip
def test_a_bad_snippet_fails(text, why, run):
    with pytest.raises(AssertionError, match=why):
        run(text).run()


def test_what_cannot_run_here_is_still_shown():
    shown = {word for text in PAGES.values() for each in snippets(text) for word in each} | {
        line for command in COMMANDS for line in examples(command)
    }
    assert {*NOT_HERE} <= shown


# Docstrings


@pytest.mark.slow
@pytest.mark.parametrize("path", DOCTESTS, ids=lambda path: path.stem)
def test_docstrings(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
    done = doctest.testmod(module, extraglobs={"gpu_rsfd": gpu_rsfd})
    assert done == (0, path.read_text("utf-8").count(">>>"))


def test_examples_of_docstrings_are_code():
    for path in PACKAGE.rglob("*.py"):
        sections = re.findall(r"^ +Examples\n +-+\n(.*\n)", path.read_text("utf-8"), re.M)
        assert all(">>>" in line for line in sections), path


# Examples of `gpu-rsfd COMMAND --help`


def examples(command):
    return list(filter(None, (load(command).epilog or "").removeprefix("Examples:  ").split(SEPARATOR)))


ASKED = ["gpu-rsfd plan people.csv --domain-file domain.json --bins age=0:18:40:65:inf --save collection.json",
         "gpu-rsfd rehearse collection.json people.csv"]  # fmt: skip
MINE = """import math, gpu_rsfd
mine = gpu_rsfd.protocol("mine", solution="smp", bits=lambda e, k: (0.5, 1 / (math.exp(e) + 1)))
"""
RESULTS = [SMALL.format("sweep", "results.h5"), "cp results.h5 paper.h5"]
RESULTS += [SMALL.format("sweep --guarantee user", "user.h5"), SMALL.format("attack", "attack.h5")]
PEOPLE = "gpu-rsfd {0} people.csv --bins age=8 --epsilon 1 --repetitions 3 --no-plot --guarantee user --output {1}.h5"
NUMBERED = r"""awk '{ sub(/}$/, ", \"user\": " NR "}"); print }' rehearsal.jsonl | gzip >monday.jsonl.gz"""
BEFORE = {  # what there is already
    "aggregate": [*ASKED, NUMBERED, "gpu-rsfd aggregate collection.json rehearsal.jsonl --state tuesday.state"],
    "data": ["sed 's/^/7,100,/; 1s/.*/id,pay,sex,age,city,smokes/' people.csv >wide.csv && mv wide.csv people.csv",
             r"printf 'rhesus,city\n+,Besan\xe7on\n-,n.a.\n' | gzip >export.csv.gz"],
    "merge": ["mkdir other", *(SMALL.format("sweep", f"results.h5 --part {i}/2") for i in (1, 2)),
              SMALL.format("attack", "attack.h5 --part 1/2"), SMALL.format("attack", "other/attack.h5 --part 2/2")],
    "page": [*RESULTS[:1], PEOPLE.format("sweep", "people"), PEOPLE.format("attack", "attack")],
    "plot": RESULTS,
    "rehearse": ASKED[:1],
    "run": ["cp examples/growing.py mine.py"],
    "show": RESULTS[:-1],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_examples_of_a_command(command, run):
    page = run("".join(f"    {line}\n" for line in examples(command)))
    Path("mine.py").write_text(MINE)
    Path("domain.json").write_text(json.dumps(DOMAIN), encoding="utf-8")
    for line in BEFORE.get(command, ()):
        page.shell(line)
    known = {*Path().glob("*.h5")}
    for _ in range(len(page.left)):
        page.run(until=page.left[1][1] if page.left[1:] else None)
        for path in {*Path().glob("*.h5")} - known:  # the next one has the same name
            path.unlink()
    assert not page.left
