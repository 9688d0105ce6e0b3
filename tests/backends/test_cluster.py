"""A real Dask scheduler and workers, processes of their own: same integers, whatever happens to them."""

import contextlib
import os
import pickle
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from command import call, refusal, start

import gpu_rsfd
from gpu_rsfd.backends.cluster import backend as cluster_backend
from gpu_rsfd.backends.cluster import pool as clusters
from gpu_rsfd.backends.cluster import worker as workers
from gpu_rsfd.backends.cluster.backend import ClusterBackend
from gpu_rsfd.backends.cluster.pool import DaskPool
from gpu_rsfd.backends.cluster.worker import FromFile
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.running.experiments import sweep
from gpu_rsfd.store.folder import folder_of

pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.slow,
    # Dask's own affairs, with other versions of its dependencies
    pytest.mark.filterwarnings("default::DeprecationWarning", "default::ResourceWarning", "ignore:.*unclosed.*"),
    pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning"),
]

SMALL = gpu_rsfd.SyntheticDataset(3000, (4, 5), name="mine")
TABLE = gpu_rsfd.Dataset(np.random.Generator(np.random.Philox(5)).integers(0, 4, (90_000, 2)), (4, 4), name="table")
OPTIONS = {"epsilons": [1.0, 2.0], "protocols": ["rsfd-grr", "smp-pgr"], "seed": 3}
LONG = ["--users", "20000", "--domain", "10x3", "--repetitions", "400", "--save-every", "0.05", "--no-plot"]


class Dask:
    """A scheduler and workers of one thread."""

    def __init__(self, folder: Path):
        self.folder, self.file = folder, folder / "scheduler.json"
        self.processes, self.workers = [], []
        self.scheduler = self.start("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")

    def start(self, module, *arguments, **environment):
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{module}", "--scheduler-file", str(self.file), *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(Path(gpu_rsfd.__file__).parents[1]), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.processes.append(process)
        return process

    def worker(self, *arguments, **environment):
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0")
        self.workers.append(self.start("dask_worker", *options, *arguments, **environment))
        return self.workers[-1]

    def kill(self, process):
        process.kill()
        process.wait()

    def close(self):
        for process in self.processes:
            self.kill(process)


@contextlib.contextmanager
def started(folder, workers=0):
    dask = Dask(folder)
    try:
        until(dask.file.exists, dask.scheduler)
        for _ in range(workers):
            dask.worker()
        yield dask
    finally:
        dask.close()


@pytest.fixture
def dask(tmp_path):
    folder = tmp_path / "dask"
    folder.mkdir()
    with started(folder) as dask:
        yield dask


@pytest.fixture
def two(dask):
    """Two workers that a test may kill."""
    dask.worker()
    dask.worker()
    return dask


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    """Two workers that tests share and leave alone."""
    with started(tmp_path_factory.mktemp("dask"), 2) as dask:
        yield dask


def truth(data, repetitions, **options):
    return gpu_rsfd.simulate(data, **{**OPTIONS, **options}, repetitions=repetitions, backend="auto")


def same(result, other):
    assert np.array_equal(result.counts, other.counts)
    assert np.array_equal(result.reporters, other.reporters)
    assert np.array_equal(result.mse("simplex"), other.mse("simplex"))


def test_the_same_integers(lasting, tmp_path, monkeypatch):
    """Small and large data sets, all samplers, in simulate and in sweep; users split over the workers."""
    place = str(lasting.file)
    for sampler in ("users", "counts", "marginals"):
        same(
            gpu_rsfd.simulate(TABLE, **OPTIONS, repetitions=9, cluster=place, sampler=sampler),
            truth(TABLE, 9, sampler=sampler),
        )
    results = sweep([SMALL, TABLE], repetitions=11, output=tmp_path / "r.h5", cluster=place, **OPTIONS)
    assert results.backend == "cluster"
    for data in (SMALL, TABLE):
        same(results[data.name], truth(data, 11))
    more = sweep([SMALL, TABLE], repetitions=20, output=tmp_path / "r.h5", **OPTIONS)  # continued without a cluster
    assert more.computed == 18
    monkeypatch.setattr(cluster_backend, "LARGE", 1)
    same(gpu_rsfd.simulate(TABLE, **OPTIONS, repetitions=3, cluster=place), truth(TABLE, 3))
    results = sweep([SMALL, TABLE], repetitions=4, output=tmp_path / "s.h5", cluster=place, **OPTIONS)
    for data in (SMALL, TABLE):
        same(results[data.name], truth(data, 4))
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == ["r.h5", "s.h5"]


def test_an_attack_is_the_same(lasting, tmp_path):
    for knowledge in ("true", "estimated"):
        options = {**OPTIONS, "protocols": ["rsfd-grr", "rsfd-oue-z", "spl-adp"], "knowledge": knowledge}
        there, here = (
            gpu_rsfd.attack(SMALL, repetitions=3, cluster=place, **options) for place in (str(lasting.file), None)
        )
        assert np.array_equal(there.sampled_success, here.sampled_success, equal_nan=True)
        assert np.array_equal(there.value_success, here.value_success)
    with pytest.raises(InputError, match="workers can't be given for a cluster"):
        gpu_rsfd.attack(SMALL, repetitions=1, cluster=str(lasting.file), workers=2)


def test_a_table_goes_to_each_worker_once(two, monkeypatch):
    sent = []
    with ClusterBackend(str(two.file)) as backend:
        register = backend.pool._client.register_plugin
        monkeypatch.setattr(
            backend.pool._client, "register_plugin", lambda *a, **k: sent.append(a) or register(*a, **k)
        )
        key, content = backend.pool._reference(TABLE)
        assert content is None
        assert backend.pool._reference(TABLE)[0] == key
        assert backend.pool._reference(SMALL)[1] is not None
        assert len(sent) == 1
        third = two.worker()
        answers = [a for _, a in backend.pool.each(0, TABLE, workers.count_repetitions, jobs_of(TABLE, 8))]
        assert len(answers) == 8
        assert third.poll() is None


def test_workers_read_a_file_that_they_see(lasting, tmp_path):
    rng = np.random.Generator(np.random.Philox(6))
    codes = rng.integers(0, 4, (40_000, 2))
    table = tmp_path / "people.csv"
    table.write_text("a,b\n" + "\n".join(f"{a},{b}" for a, b in codes))
    data = gpu_rsfd.load_table(table, columns=["b", "a"], name="people")
    with ClusterBackend(str(lasting.file)) as backend:
        assert isinstance(pickle.loads(backend.pool._reference(data)[1]), FromFile)
    same(gpu_rsfd.simulate(data, **OPTIONS, repetitions=3, cluster=str(lasting.file)), truth(data, 3))
    table.write_text(table.read_text() + "\n1,1")  # not what was loaded
    with pytest.raises(RunError, match=r"people\.csv is another file on a worker"):
        gpu_rsfd.simulate(data, **OPTIONS, repetitions=3, cluster=str(lasting.file))
    table.unlink()
    same(gpu_rsfd.simulate(data, **OPTIONS, repetitions=3, cluster=str(lasting.file)), truth(data, 3))


def jobs_of(data, number):
    from gpu_rsfd.planning import Plan

    plan = Plan.of(data.domain, OPTIONS["protocols"], OPTIONS["epsilons"])
    return [(plan, 3, range(i, i + 1), "auto", "users") for i in range(number)]


def until(condition, process=None):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.01)


def blocks(path):
    return len(list(folder_of(path).glob("*-*.h5"))) + path.exists()


def test_workers_that_are_killed(two, tmp_path):
    """One in the middle, then all one after another while new ones join: nothing is lost, nothing is wrong."""
    path = tmp_path / "results.h5"
    process = start("sweep", *LONG, "--cluster", two.file, "--quiet", cwd=tmp_path)
    until(lambda: blocks(path), process)
    for worker in list(two.workers):
        two.kill(worker)
        two.worker()
        time.sleep(0.3)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert (out, err) == ("", "")
    (result,) = gpu_rsfd.open_results(path).values()
    data = gpu_rsfd.SyntheticDataset(20000, (10,) * 3)
    assert np.array_equal(result.counts, gpu_rsfd.simulate(data, repetitions=400).counts)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dask", "results.h5"]


def test_a_client_that_is_killed_and_one_that_is_interrupted(two, tmp_path):
    path = tmp_path / "results.h5"
    for end in (signal.SIGKILL, signal.SIGINT):
        before = blocks(path)
        process = start("sweep", *LONG, "--cluster", two.file, cwd=tmp_path)
        until(lambda before=before: blocks(path) > before or path.exists(), process)
        process.send_signal(end)
        _, err = process.communicate(timeout=60)
        if end == signal.SIGINT and process.returncode == 130:
            assert "Traceback" not in err
            assert "what is done is kept in results.h5" in err
            assert "to continue:\n  gpu-rsfd sweep" in err
    process = start("sweep", *LONG, "--cluster", two.file, "--quiet", cwd=tmp_path)
    assert process.communicate(timeout=120) == ("", "")
    (result,) = gpu_rsfd.open_results(path).values()
    data = gpu_rsfd.SyntheticDataset(20000, (10,) * 3)
    assert np.array_equal(result.counts, gpu_rsfd.simulate(data, repetitions=400).counts)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dask", "results.h5"]


def test_a_lost_scheduler(two, tmp_path):
    process = start("sweep", *LONG[:-4], "4000", *LONG[-3:], "--cluster", two.file, cwd=tmp_path)
    path = tmp_path / "results.h5"
    until(path.exists, process)
    two.kill(two.scheduler)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "the scheduler is gone; what is done is kept in results.h5" in err
    assert "to continue:\n  gpu-rsfd sweep" in err
    assert "Traceback" not in err
    assert len(next(iter(gpu_rsfd.open_results(path).values())).repetitions) >= 1


def test_other_versions_are_one_line(lasting, monkeypatch):
    monkeypatch.setattr(workers, "__version__", "9.9")
    words = r"no worker that can be used; tcp://\S+: it has gpu-rsfd .*, this process has gpu-rsfd 9\.9, stream 1 "
    with pytest.raises(RunError, match=words):
        DaskPool(str(lasting.file))
    monkeypatch.undo()
    pool = DaskPool(str(lasting.file))
    try:
        monkeypatch.setattr(workers, "__version__", "9.9")  # a worker that joins later
        with pytest.raises(RunError, match=r"tcp://\S+: it has gpu-rsfd .* this process has gpu-rsfd 9\.9"):
            list(pool.each(0, SMALL, workers.count_repetitions, jobs_of(SMALL, 1)))
    finally:
        pool.close()


def test_errors_of_the_work(lasting):
    class Local(gpu_rsfd.SyntheticDataset):
        pass

    pool = DaskPool(str(lasting.file))
    try:
        counted = gpu_rsfd.CountedDataset.of_distribution(50, (3,))
        with pytest.raises(InputError, match="known only by its counts"):
            list(pool.each(0, counted, workers.count_repetitions, jobs_of(counted, 1)))
        with pytest.raises(RuntimeError, match=r"(?s)in a worker of the cluster:.*TypeError") as raised:
            list(pool.each(0, SMALL, workers.count_repetitions, [(1,)]))
        assert not isinstance(raised.value, RunError)
        with pytest.raises(InputError, match="can't import the class"):
            list(pool.each(0, Local(5, (3,)), workers.count_repetitions, jobs_of(SMALL, 1)))
        assert len(list(pool.each(0, SMALL, workers.count_repetitions, jobs_of(SMALL, 3)))) == 3
    finally:
        pool.close()


def test_few_tasks_are_under_way(lasting):
    taken = []

    def items():
        for item in jobs_of(SMALL, 60):
            taken.append(item)
            yield item

    pool = DaskPool(str(lasting.file))
    try:
        for done, _ in enumerate(pool.each(0, SMALL, workers.count_repetitions, items()), 1):
            assert len(taken) - done <= clusters.IN_FLIGHT * 2
    finally:
        pool.close()


def test_a_worker_with_a_gpu(dask, tmp_path):
    """It is asked for by its resource; without CUDA, or with more than one thread, it says so."""
    dask.worker()
    with pytest.raises(RunError, match="has no worker with a GPU"):
        ClusterBackend(str(dask.file), "cupy")
    dask.worker("--resources", "GPU=1", CUDA_VISIBLE_DEVICES="0")
    until(lambda: _gpus(dask))
    with ClusterBackend(str(dask.file), "cupy") as backend:
        assert backend.pool.gpus
        with pytest.raises(InputError, match="backend 'cupy' is not available"):
            list(backend.pool.each(0, SMALL, workers.count_repetitions, [(*jobs_of(SMALL, 1)[0][:3], "cupy", "users")]))
    for worker in dask.workers:
        dask.kill(worker)
    dask.worker("--resources", "GPU=1", "--nthreads", "2", CUDA_VISIBLE_DEVICES="0")
    until(lambda: _gpus(dask))
    with ClusterBackend(str(dask.file), "cupy") as backend:
        item = (*jobs_of(SMALL, 1)[0][:3], "cupy", "users")
        with pytest.raises(RunError, match=r"^a worker with a GPU has 2 threads; start it with one"):
            list(backend.pool.each(0, SMALL, workers.count_repetitions, [item]))


def _gpus(dask):
    pool = DaskPool(str(dask.file))
    try:
        return pool.gpus
    finally:
        pool.close()


# ------------------------------------------------------------------------------------------ clusters that fall silent


def quickly(monkeypatch, quiet=0.5, silent=2.0):
    monkeypatch.setattr(clusters, "QUIET_SECONDS", quiet)
    monkeypatch.setattr(clusters, "SILENT_SECONDS", silent)
    monkeypatch.setattr(clusters, "ANSWER_SECONDS", 1.0)


def test_a_stopped_worker(two, monkeypatch):
    """It stays connected and does nothing: that is said, its work is given to the other, and it is named."""
    lines = []
    with clusters.waiting(None, lines.append):
        pool = DaskPool(str(two.file))
    until(lambda: len(pool._client.nthreads()) == 2)
    try:
        two.workers[0].send_signal(signal.SIGSTOP)
        quickly(monkeypatch)
        answers = list(pool.each(0, SMALL, workers.count_repetitions, jobs_of(SMALL, 12)))
    finally:
        pool.close()
        two.workers[0].send_signal(signal.SIGCONT)
    assert len(answers) == 12
    assert any("nothing came back for" in line and "2 workers alive" in line for line in lines), lines
    assert sum("is left out: nothing was heard of it for" in line for line in lines) == 1, lines
    counts = np.concatenate([part[0][0] for _, part in sorted(answers, key=lambda a: a[0][2][0])], axis=1)
    with gpu_rsfd.backends.open_backend("numpy", 1)[0] as backend:
        plan = jobs_of(SMALL, 1)[0][0]
        assert np.array_equal(counts, backend.count(plan, SMALL, 3, range(12))[0][0])


def test_a_stopped_scheduler_and_patience(two, tmp_path, monkeypatch):
    """What is done is kept, and the error says what was waited for."""
    lines = []
    with clusters.waiting(60.0, lines.append):
        pool = DaskPool(str(two.file))
    quickly(monkeypatch)
    pool._patience = 3.0
    try:
        two.scheduler.send_signal(signal.SIGSTOP)
        with pytest.raises(RunError, match=r"nothing came back for \d+ s .the scheduler does not answer; \d+ tasks in"):
            list(pool.each(0, SMALL, workers.count_repetitions, jobs_of(SMALL, 3)))
    finally:
        two.scheduler.send_signal(signal.SIGCONT)
        pool.close()
    assert any("the scheduler does not answer" in line for line in lines), lines


def test_no_worker_at_all(dask, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, "sweep", *LONG, "--cluster", str(dask.file), "--patience", "2") == 1
    assert "can't be used: no worker joined it" in capsys.readouterr().err


def test_patience_is_for_clusters(tmp_path, monkeypatch, capsys):
    for more in (["--patience", "5"], ["--cluster", "local:1", "--patience", "0"]):
        (line,) = refusal(monkeypatch, capsys, tmp_path, ["sweep", "--users", "10", "--domain", "2x2", *more])
        assert "must be a number of seconds > 0, and needs --cluster" in line


def test_a_worker_that_lacks_the_file(two, tmp_path):
    """It joins later: it is left out and named, and the others go on."""
    codes = np.random.Generator(np.random.Philox(6)).integers(0, 4, (40_000, 2))
    table = tmp_path / "people.csv"
    table.write_text("a,b\n" + "\n".join(f"{a},{b}" for a, b in codes))
    data = gpu_rsfd.load_table(table, name="people")
    lines = []
    with clusters.waiting(None, lines.append), ClusterBackend(str(two.file)) as backend:
        until(lambda: len(backend.pool._client.nthreads()) == 2)
        assert isinstance(pickle.loads(backend.pool._reference(data)[1]), FromFile)
        missing = tmp_path / "lacking.py"
        missing.write_text(
            "from gpu_rsfd.backends.cluster import worker\n"
            "def load(self): raise FileNotFoundError(2, 'No such file or directory', self.path)\n"
            "worker.FromFile.load = load\n"
        )
        for worker in list(two.workers):
            two.kill(worker)
        two.worker("--preload", str(missing))
        until(lambda: len(backend.pool._client.nthreads()) == 1)
        jobs = backend.pool.each(0, data, workers.count_repetitions, jobs_of(data, 6))
        later = threading.Timer(2.0, two.worker)
        with pytest.raises(RunError, match=r"no worker that can be used; tcp://.*people\.csv"):
            list(jobs)
        later.start()
        later.join()
        until(lambda: len(backend.pool._client.nthreads()) == 2)
        assert len(list(backend.pool.each(0, data, workers.count_repetitions, jobs_of(data, 6)))) == 6
    (line,) = (line for line in lines if "is left out" in line)
    assert "No such file or directory" in line


def test_a_worker_without_memory(lasting, monkeypatch):
    lines = []
    with clusters.waiting(None, lines.append):
        pool = DaskPool(str(lasting.file))
    try:
        with pytest.raises(RunError, match=r"no worker that can be used; .*: it is out of memory: too much"):
            list(pool.each(0, SMALL, raise_memory, [("too much",)]))
    finally:
        pool.close()
    assert len({line for line in lines if "is left out: it is out of memory" in line}) == 2


def raise_memory(columns, words):
    raise MemoryError(words)


raise_memory.__module__ = "__main__"  # it is sent by value: workers have no tests


# --------------------------------------------------------------------------------------------------- a local cluster


def children(parent):
    """Processes of the local cluster that a process has started."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            mine = int((path / "stat").read_text().rpartition(")")[2].split()[1]) == parent
            if mine and b"gpu_rsfd.backends.cluster.dask_side" in (path / "cmdline").read_bytes():
                found.add(path)
    return found


def gone(processes):
    """Whether they have ended, whoever is their parent by now."""
    return not any((path / "cmdline").exists() and (path / "cmdline").read_bytes() for path in processes)


def listening(process):
    """Addresses that a process listens on, in hexadecimal as /proc has them."""
    inodes = set()
    for path in (process / "fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.add(os.readlink(path).removeprefix("socket:[").removesuffix("]"))
    found = []
    for table in ("tcp", "tcp6"):
        for line in (process / "net" / table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                found.append(fields[1].partition(":")[0])
    return found


def greeting(address, context=None):
    """What a process of Dask sends to somebody who connects; nothing if it does not want to talk to them."""
    host, port = address.rpartition("/")[2].split(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=20) as plain:
        if context is None:
            plain.sendall(bytes(64))
            return plain.recv(1)
        with context.wrap_socket(plain) as secured:
            return secured.recv(1)
    return b""


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="needs Linux")
def test_a_local_cluster_is_nobody_elses():
    """One port for each process, on the loopback interface, for holders of the certificate; no web server."""
    with ClusterBackend("local:1") as backend:
        processes = children(os.getpid())
        assert len(processes) == 2
        for process in processes:
            assert listening(process) == ["0100007F"], process
        address = backend.pool._client.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        stranger = ssl.create_default_context()
        stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
        assert greeting(address) == greeting(address, stranger) == b""
        assert greeting(address, backend.pool._local.security.get_connection_args("client")["ssl_context"])
    until(lambda: gone(processes))


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="needs Linux")
def test_nothing_is_left_of_a_client_that_is_killed(tmp_path):
    (tmp_path / "tmp").mkdir()
    command = [*LONG[:-4], "4000", *LONG[-3:], "--cluster", "local:2"]
    process = start("sweep", *command, cwd=tmp_path, env={"TMPDIR": str(tmp_path / "tmp")})
    until(lambda: blocks(tmp_path / "results.h5"), process)
    mine = children(process.pid)
    assert len(mine) == 3
    process.kill()
    process.communicate()
    until(lambda: gone(mine))
    assert [p for p in (tmp_path / "tmp").iterdir() if p.name.startswith("gpu-rsfd")] == []


def test_a_local_cluster_needs_no_guard(tmp_path):
    """In a script of no special form; nothing is left of it."""
    (tmp_path / "random.py").write_text("raise RuntimeError('imported from the current directory')")
    folder = tmp_path / "script"
    folder.mkdir()
    (folder / "run.py").write_text(
        "import gpu_rsfd\n"
        "data = gpu_rsfd.SyntheticDataset(3000, (4, 5))\n"
        "print(gpu_rsfd.simulate(data, repetitions=4, cluster='local:2').counts.sum())\n"
    )
    done = subprocess.run(
        [sys.executable, str(folder / "run.py")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(gpu_rsfd.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    expected = gpu_rsfd.simulate(gpu_rsfd.SyntheticDataset(3000, (4, 5)), repetitions=4).counts.sum()
    assert (done.stdout, done.stderr) == (f"{expected}\n", "")


@pytest.mark.parametrize("arguments,code,message", [
    (["--cluster", "local:none"], 2, "cluster=local:none must name a number of workers, such as local:4"),
    (["--cluster", "head"], 2, "cluster=head must be a scheduler's address (tcp://…), its file, or local:4"),
    (["--cluster", "local:2", "--workers", "2"], 2, "workers and devices can't be given for a cluster"),
    (["--cluster", "tcp://127.0.0.1:9"], 1, "cluster=tcp://127.0.0.1:9 can't be used: "),
])  # fmt: skip
def test_bad_input(tmp_path, monkeypatch, capsys, arguments, code, message):
    monkeypatch.setattr(clusters, "CONNECTING_SECONDS", 1)
    command = ["sweep", "--users", "10", "--domain", "2x2", *arguments]
    if code == 2:
        assert message in refusal(monkeypatch, capsys, tmp_path, command)[-1]
    else:
        monkeypatch.chdir(tmp_path)
        assert call(monkeypatch, *command) == 1
        assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
