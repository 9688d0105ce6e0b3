"""What strangers look at first: citation, metadata, links, documentation."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import gpu_rsfd

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"version: {gpu_rsfd.__version__}\n" in text
    assert "10.1145/3459637.3482467" in text
    assert text.startswith("cff-version: 1.2.0\n")


def test_the_package_says_whose_it_is():
    assert PROJECT["authors"]
    assert all(url.startswith("https://") for url in PROJECT["urls"].values())
    assert "Programming Language :: Python :: 3.10" in PROJECT["classifiers"]


def test_links_of_the_package_page_need_no_repository():
    """Where a package is looked up there are no files beside its page."""
    page = (ROOT / PROJECT["readme"]).read_text("utf-8")
    assert all(link.startswith("https://") for link in LINK.findall(page))


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_formulas_are_whole(path):
    """Dollars come in pairs outside code, so that none is left as text, and Euler's number stands upright."""
    text = re.sub(r"```.*?```|`[^`\n]*`|^    .*$", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
    assert text.count("$") % 2 == 0
    assert not re.search(r"\$[^$]*(?<![\w{\\])e\^[^$]*\$", text)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "benchmarks/README.md", "docs"])
def test_links_between_files_lead_somewhere(name):
    path = ROOT / name
    for file in [path] if path.is_file() else sorted(path.glob("*.md")):
        for link in LINK.findall(re.sub(r"```.*?```|`[^`]*`", "", file.read_text("utf-8"), flags=re.S)):
            target = link.partition("#")[0]
            if target and not link.startswith("https://"):
                assert (file.parent / target).exists(), f"{file.name}: {link}"


def test_the_documentation_can_be_read():
    """In an afternoon: what is said twice, or is a diary, has to go."""
    assert sum(len(page.read_text("utf-8").split()) for page in (ROOT / "docs").glob("*.md")) <= 18_000


def test_every_benchmark_is_described():
    text = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    for script in (ROOT / "benchmarks").glob("*.py"):
        assert f"`{script.name}`" in text, script.name


def test_every_public_name_is_documented():
    text = (ROOT / "docs" / "api.md").read_text("utf-8")
    for name in gpu_rsfd.__all__:
        assert re.search(rf"\b(gpu_rsfd\.)?{name}\b", text), name


def test_every_command_has_a_page():
    from gpu_rsfd.cli.commands import COMMANDS

    text = (ROOT / "docs" / "conf.py").read_text("utf-8")
    names = re.search(r"^COMMANDS = \(.*?\)", text, re.S | re.M)[0]
    assert re.findall(r'"(\w+)"', names) == list(COMMANDS)


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    for module in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(module, reason="the extra `docs` is not installed")
    words = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", "-d", str(tmp_path / "doctrees")]
    done = subprocess.run(
        [*words, str(ROOT / "docs"), str(tmp_path / "site")], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "api.html").read_text("utf-8")
    for name in ("simulate", "sweep", "open_results", "to_dataframe", "privacy_loss"):
        assert f"{name}</span>" in page, name
