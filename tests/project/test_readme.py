"""The README from top to bottom, as in a fresh clone: commands, Python blocks, and what it says that they print."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SKIPPED = ("scripts/install", "scripts/test", "gpu-rsfd doctor --self-test")  # what installs, or takes minutes
VARYING = re.compile(r" after [\d.]+ s")  # how long it took


def snippets(text):
    """("shell", line), ("python", block) and ("output", block), in their order."""
    fence = None
    block: list[str] = []
    for line in text.splitlines():
        if line.startswith("```"):
            if fence is None:
                fence, block = line.removeprefix("```").strip(), []
            else:
                yield ("output" if fence == "" else fence), "\n".join(block)
                fence = None
        elif fence is not None:
            block.append(line)
        elif line.startswith("    "):
            yield "shell", line.strip()


def in_a_clone(folder, text):
    """Runs the snippets of a text; what they say is in `output`."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    tools = {"gpu-rsfd": '-m gpu_rsfd "$@"', "scripts/sweep": '-m gpu_rsfd sweep "$@"'}
    for name, arguments in tools.items():
        path = folder / ("bin" if "/" not in name else "") / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -W error {arguments}\n')
        path.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "MPLBACKEND": "agg"}
    printed, ran, before = "", [], ""
    for kind, content in snippets(text):
        if kind == "output":
            for line in content.splitlines():
                assert VARYING.sub("", line) in VARYING.sub("", printed), f"the README says that it prints {line!r}"
        if kind not in ("shell", "python") or content.startswith(SKIPPED):
            continue
        words = ["sh", "-c", content] if kind == "shell" else [sys.executable, "-W", "error", "-c", before + content]
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{content}\n{done.stdout}\n{done.stderr}"
        printed, ran = done.stdout, [*ran, content]
        before += f"{content}\n" * (kind == "python")
    return ran


def test_what_is_found():
    text = "a\n\n    one\n    two  # x\n\n```\nprinted\n    more\n```\n\n```python\nx = 1\n```\n\n- list\n"
    found = [("shell", "one"), ("shell", "two  # x"), ("output", "printed\n    more"), ("python", "x = 1")]
    assert list(snippets(text)) == found


@pytest.mark.slow
def test_the_readme_runs(tmp_path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) < 150
    ran = in_a_clone(tmp_path, readme)
    assert len(ran) >= 10
    assert any("import gpu_rsfd" in content for content in ran)


@pytest.mark.slow
@pytest.mark.parametrize("text,why", [
    ("    gpu-rsfd show nothing.h5\n", "nothing.h5 does not exist"),
    ("```python\nimport gpu_rsfd\ngpu_rsfd.nothing\n```\n", "has no attribute 'nothing'"),
    ("    gpu-rsfd --version\n\n```\ngpu-rsfd 99\n```\n", "says that it prints 'gpu-rsfd 99'"),
])  # fmt: skip
def test_the_test_can_fail(text, why, tmp_path):
    with pytest.raises(AssertionError, match=why):
        in_a_clone(tmp_path, text)
