"""How the native backend is built, and every way in which it is not: then NumPy, with a line that says why."""

import ctypes
import hashlib
import os
import re
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from native_builds import COMPILER, needs_compiler

import gpu_rsfd
from gpu_rsfd.backends import BackendUnavailable, open_backend
from gpu_rsfd.backends.native import build, tables
from gpu_rsfd.backends.native.backend import NativeBackend
from gpu_rsfd.protocols import Bits, Keep

TINY = """
int rsfd_count(const void *job) { (void)job; return 0; }
void rsfd_draw(void) {}
const char *rsfd_build(void) { return "tiny"; }
"""


@pytest.fixture
def fresh(monkeypatch, tmp_path, no_cupy):
    """A machine with an empty cache, and without CuPy."""
    for name in ("CC", "XDG_CACHE_HOME", "GPU_RSFD_NATIVE"):
        monkeypatch.delenv(name, raising=False)
    cache = tmp_path / "cache"
    monkeypatch.setenv("GPU_RSFD_CACHE", str(cache))
    build.forget()
    yield cache
    build.forget()


@pytest.fixture
def tiny(fresh, monkeypatch, tmp_path):
    """A source that takes no time to compile, and counts nothing."""
    source = tmp_path / "tiny.c"
    source.write_text(TINY)
    monkeypatch.setattr(build, "SOURCE", source)
    monkeypatch.setattr(build, "wrong_counts", lambda library: "")
    return fresh


def reason():
    """Why `auto` takes NumPy; asking for native by name says the same."""
    build.forget()
    backend, why = open_backend("auto")
    assert backend.name == "numpy"
    assert why.startswith("numpy, since ")
    assert "\n" not in why
    text = why.removeprefix("numpy, since ")
    with pytest.raises(BackendUnavailable) as error:
        open_backend("native")
    assert str(error.value) == f"backend 'native' is not available: {text}"
    assert build.describe() == {"available": f"no, since {text}"}
    assert open_backend("auto", workers=2)[1] == why
    return text


def test_it_can_be_turned_off(fresh, monkeypatch):
    monkeypatch.setenv("GPU_RSFD_NATIVE", "0")
    assert reason() == "GPU_RSFD_NATIVE=0 turns the native backend off"
    assert not fresh.exists()


def test_no_compiler(fresh, monkeypatch):
    monkeypatch.setenv("PATH", str(fresh))
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None)
    assert reason() == "no C compiler was found (cc, gcc, clang)"
    monkeypatch.setenv("CC", "nothing-of-the-kind -O2")
    assert reason() == "no C compiler was found: CC='nothing-of-the-kind -O2' is not a program"
    result = gpu_rsfd.simulate(gpu_rsfd.SyntheticDataset(50, (2, 3)), epsilons=1.0, protocols="rsfd-grr", repetitions=1)
    assert result.counts.sum() > 0


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_broken_compiler(fresh, monkeypatch, tmp_path):
    monkeypatch.setenv("CC", script(tmp_path / "broken", "echo internal error: sorry >&2; exit 4"))
    assert reason() == f"the C compiler {tmp_path}/broken does not work: internal error: sorry"
    asks = 'case "$*" in *-dM*) exit 0;; esac; '
    monkeypatch.setenv("CC", script(tmp_path / "fails", f"{asks}echo counts.c:1: error: no >&2; echo here >&2; exit 1"))
    assert reason() == f"the C compiler {tmp_path}/fails failed: counts.c:1: error: no"
    monkeypatch.setenv("CC", script(tmp_path / "idle", "exit 0"))
    assert reason().startswith(f"the C compiler {tmp_path}/idle failed: ")
    monkeypatch.setenv("CC", script(tmp_path / "junk", f'{asks}while [ "$1" != -o ]; do shift; done; echo junk > "$2"'))
    assert "can't be loaded" in reason()
    monkeypatch.setattr(build, "BUILD_SECONDS", 0.05)
    monkeypatch.setenv("CC", script(tmp_path / "slow", "sleep 5"))
    assert "timed out" in reason()


@needs_compiler
def test_a_cache_that_cannot_be_written(tiny, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GPU_RSFD_CACHE", str(tmp_path / "file" / "cache"))
    assert reason().startswith(f"the cache {tmp_path}/file/cache can't be used: ")
    monkeypatch.delenv("GPU_RSFD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert reason().startswith(f"the cache {tmp_path}/file/gpu-rsfd can't be used: ")


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GPU_RSFD_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert build.cache_folder() == tmp_path / ".cache" / "gpu-rsfd"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert build.cache_folder() == tmp_path / "xdg" / "gpu-rsfd"
    monkeypatch.setenv("GPU_RSFD_CACHE", str(tmp_path / "own"))
    assert build.cache_folder() == tmp_path / "own"


@needs_compiler
def test_one_compilation_and_one_line(tiny, capfd):
    path = build.built().path
    assert path.parent == tiny
    assert [p.name for p in tiny.iterdir()] == [path.name]  # nothing is left of the building
    assert stat.S_IMODE(tiny.stat().st_mode) == 0o700
    first = capfd.readouterr()
    assert (first.out, first.err.count("\n")) == ("", 1)
    assert first.err.startswith("gpu-rsfd: compiling the native backend with ")
    changed = path.stat().st_mtime_ns
    build.forget()
    assert build.built().path == path
    assert path.stat().st_mtime_ns == changed
    assert capfd.readouterr() == ("", "")
    description = build.describe()
    assert list(description) == ["available", "compiler", "version", "flags", "vectors", "cache"]
    assert description["vectors"] == "tiny"
    assert description["cache"] == str(path)


@needs_compiler
def test_source_flags_and_cpu_are_in_the_name(tiny):
    keys = {
        compiler.key(source)
        for source in (TINY, TINY + " ")
        for compiler in (
            COMPILER,
            build.Compiler(COMPILER.command, ("-march=other",), COMPILER.macros),
            build.Compiler(COMPILER.command, COMPILER.target, COMPILER.macros + "#define __AVX1024__ 1\n"),
        )
    }
    assert len(keys) == 6
    path = build.in_cache(COMPILER, TINY, tiny).path
    other = build.in_cache(COMPILER, TINY + " ", tiny).path
    assert path != other
    assert COMPILER.key(TINY) in path.name


@needs_compiler
def test_a_file_that_is_not_whole_is_made_again(tiny, capfd):
    path = build.built().path
    content = path.read_bytes()
    for broken in (content[: len(content) // 2], b"", content[:-1] + b"?"):
        capfd.readouterr()
        path.unlink()  # what is loaded stays as it is
        path.write_bytes(broken)
        path.chmod(0o700)
        build.forget()
        assert build.built().path == path
        assert path.read_bytes() == content
        assert "compiling" in capfd.readouterr().err


@needs_compiler
def test_what_another_user_owns_or_can_write_is_not_loaded(tiny, monkeypatch):
    path = build.built().path
    path.chmod(0o777)
    assert reason() == f"{path} can be written by other users"
    path.chmod(0o700)
    tiny.chmod(0o777)
    assert reason() == f"{tiny} can be written by other users"
    tiny.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
        assert reason() == f"{path} belongs to another user"
        os.chown(path, 0, -1)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert reason().endswith(" belongs to another user")


@needs_compiler
def test_a_folder_above_the_cache_that_others_can_write_to(tiny, monkeypatch, tmp_path):
    """Whoever can rename the cache can put another in its place, at any moment."""
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(0o777)
    (tmp_path / "link").symlink_to(above)
    for place in (above, tmp_path / "link"):
        monkeypatch.setenv("GPU_RSFD_CACHE", str(place / "inner" / "cache"))
        assert reason() == f"{above} can be written by other users"
    above.chmod(0o755)
    build.forget()
    assert build.built().path.parent == above / "inner" / "cache"


@needs_compiler
def test_a_link_that_is_turned_while_it_is_compiled(tiny, monkeypatch, tmp_path):
    """It is another user's: where it leads is found out once, and checked."""
    link, mine, evil, compiled = tmp_path / "link", tmp_path / "mine", tmp_path / "evil", build.compiled
    for path in (mine, evil):
        path.mkdir(0o755)
    link.symlink_to(mine)

    def turned(compiler, source, folder):
        theirs = evil / folder.name
        theirs.mkdir()
        compiled(compiler, source.replace("tiny", "evil"), theirs)
        made = compiled(compiler, source, folder)
        link.unlink()
        link.symlink_to(evil)
        return made

    monkeypatch.setattr(build, "compiled", turned)
    monkeypatch.setenv("GPU_RSFD_CACHE", str(link))
    assert (build.built().width, build.built().path.parent) == ("tiny", mine)


@needs_compiler
def test_what_was_checked_is_what_is_loaded(tiny, monkeypatch, tmp_path):
    """A file that is replaced between the check and the loading is not loaded."""
    path = build.in_cache(COMPILER, TINY, tiny).path
    evil, cdll = build.compiled(COMPILER, TINY.replace("tiny", "evil"), tmp_path), ctypes.CDLL

    def replaced_meanwhile(name):
        path.unlink()
        evil.replace(path)
        return cdll(name)

    monkeypatch.setattr(ctypes, "CDLL", replaced_meanwhile)
    build.forget()
    assert build.built().width == "tiny"


ATTACK = """
import os, sys
os.setgroups([]); os.setgid(12345); os.setuid(12345)
folder, evil = sys.argv[1:]
name = os.path.basename(evil)
while True:  # the real cache and ours change places, as often as possible
    try:
        os.rename(folder + "/cache", folder + "/real")
        os.rename(folder + "/mine", folder + "/cache")
        os.rename(folder + "/cache", folder + "/mine")
        os.rename(folder + "/real", folder + "/cache")
    except OSError:
        if not os.path.exists(folder + "/cache") and os.path.exists(folder + "/real"):
            os.rename(folder + "/real", folder + "/cache")
"""


@pytest.mark.slow
@needs_compiler
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as another user")
def test_another_user_who_swaps_the_cache(tiny, monkeypatch):
    """Code of a user who can write to a folder above the cache is never run."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        above = Path(folder)
        above.chmod(0o777)
        monkeypatch.setenv("GPU_RSFD_CACHE", str(above / "cache"))
        evil = build.compiled(build.find_compiler(), TINY.replace("tiny", "evil"), above)
        (above / "mine").mkdir()
        content = evil.read_bytes()
        key = build.find_compiler().key(TINY)
        copy = above / "mine" / f"native-{key}-{hashlib.sha256(content).hexdigest()[:16]}.so"
        copy.write_bytes(content)
        for path in (above / "mine", copy):
            path.chmod(0o700)
            os.chown(path, 12345, 12345)
        attacker = subprocess.Popen([sys.executable, "-c", ATTACK, folder, str(copy)])
        try:
            for _ in range(200):
                build.forget()
                described = build.describe()
                assert described["available"].startswith("no, since ")
                assert folder in described["available"]
        finally:
            attacker.kill()
            attacker.wait()


@needs_compiler
def test_a_link_in_the_cache_is_replaced(tiny, tmp_path, capfd):
    path = build.built().path
    path.rename(tmp_path / "elsewhere.so")
    path.symlink_to(tmp_path / "elsewhere.so")
    build.forget()
    assert build.built().path == path
    assert not path.is_symlink()
    assert capfd.readouterr().err.count("compiling") == 2


@needs_compiler
def test_a_folder_from_which_nothing_may_be_run(tiny, monkeypatch):
    def refused(path):
        raise OSError(f"{path}: failed to map segment from shared object")

    monkeypatch.setattr(ctypes, "CDLL", refused)
    assert reason().endswith(".so: failed to map segment from shared object")


@needs_compiler
def test_wrong_counts_are_refused(fresh, monkeypatch, tmp_path):
    source = tmp_path / "tiny.c"
    source.write_text(TINY)
    monkeypatch.setattr(build, "SOURCE", source)
    text = reason()
    assert re.search(
        r"gives wrong counts \(users=1, domain=2, .*: count 0 instead of 1 \(\d+ cells\)\): a fault of", text
    )
    assert list(fresh.iterdir()) == []  # the cache never gets it


@needs_compiler
def test_what_the_cache_has_is_not_compared_again(tiny, monkeypatch):
    build.built()
    monkeypatch.setattr(build, "wrong_counts", lambda library: 1 / 0)
    build.forget()
    build.built()


@pytest.mark.slow
@needs_compiler
def test_processes_that_build_at_the_same_time(tiny, tmp_path):
    program = (
        "import sys; from pathlib import Path; from gpu_rsfd.backends.native import build\n"
        f"build.SOURCE = Path({str(tmp_path / 'tiny.c')!r})\n"
        "build.wrong_counts = lambda library: ''\n"
        "print(build.built().path)"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    paths = {process.communicate(timeout=60)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0] * 4
    assert len(paths) == 1
    assert [str(p) for p in tiny.iterdir()] == list(paths)


@needs_compiler
def test_auto_takes_it(fresh, monkeypatch):
    monkeypatch.undo()
    build.forget()
    for options, why in (({}, "native, since "), ({"workers": 2}, "native, since workers were asked for")):
        backend, line = open_backend("auto", **options)
        with backend:
            assert line.startswith(why) or backend.name == "cupy"
    backend, line = open_backend("native", 3)
    with backend:
        assert (backend.name, backend.device, line) == ("native", "3 CPU threads", "native was asked for")
    with pytest.raises(ValueError, match=r"devices=\[0\] cannot be used with backend 'native'; available: auto, cupy"):
        open_backend("native", devices=[0])


@needs_compiler
def test_auto_takes_the_first_that_knows_every_noise(monkeypatch, tmp_path):
    build.forget()
    monkeypatch.setattr(tables, "NOISES", frozenset({Keep}))
    monkeypatch.setattr(NativeBackend, "noises", frozenset({Keep}))
    backend, line = open_backend("auto", workers=1, noises=frozenset({Keep}))
    with backend:
        assert backend.name == "native"
    backend, line = open_backend("auto", workers=1, noises=frozenset({Keep, Bits}))
    with backend:
        why = "native and numpy, since workers were asked for and native does not know the noise Bits"
        assert (backend.name, line) == ("native and numpy", why)
    data = gpu_rsfd.SyntheticDataset(100, (3, 4))
    for protocol, taken in (("smp-grr", "native"), ("smp-oue", "numpy")):
        options = {"protocols": [protocol], "epsilons": 1.0, "repetitions": 2, "workers": 1}
        results = gpu_rsfd.sweep(data, output=tmp_path / f"{protocol}.h5", **options)
        assert results.backend == taken
