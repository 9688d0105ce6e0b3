"""A real Dask scheduler and workers, processes of their own: same integers, whatever happens to them."""

import contextlib
import os
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
from gpu_rsfd.errors import InputError, RunError
from gpu_rsfd.planning import Plan

pytest.importorskip("distributed")
from gpu_rsfd.backends import cluster as clusters
from gpu_rsfd.backends.cluster import Cluster

pytestmark = [
    pytest.mark.slow,
    # Dask's own affairs, with other versions of its dependencies
    pytest.mark.filterwarnings("default::DeprecationWarning", "default::ResourceWarning", "ignore:.*unclosed.*"),
    pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning"),
]

SMALL = gpu_rsfd.SyntheticDataset(3000, (4, 5), name="mine")
TABLE = gpu_rsfd.Dataset(np.random.Generator(np.random.Philox(5)).integers(0, 4, (90_000, 2)), (4, 4), name="table")
OPTIONS = {"epsilons": [1.0, 2.0], "protocols": ["rsfd-grr", "smp-pgr", "smp-ss"], "seed": 3}
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


@contextlib.contextmanager
def started(folder, workers):
    dask = Dask(folder)
    try:
        until(dask.file.exists, dask.scheduler)
        for _ in range(workers):
            dask.worker()
        yield dask
    finally:
        for process in dask.processes:
            dask.kill(process)


@pytest.fixture
def none(tmp_path_factory):
    with started(tmp_path_factory.mktemp("dask"), 0) as dask:
        yield dask


@pytest.fixture
def two(tmp_path_factory):
    """Two workers that a test may kill."""
    with started(tmp_path_factory.mktemp("dask"), 2) as dask:
        yield dask


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    """Two workers that tests share and leave alone."""
    with started(tmp_path_factory.mktemp("dask"), 2) as dask:
        yield dask


def until(condition, process=None):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.01)


def saved(folder):
    """Bytes of what has been saved, in whatever form."""
    sizes = [0]
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            sizes.append(path.stat().st_size if "results.h5" in str(path) and path.is_file() else 0)
    return sum(sizes)


def same(result, other):
    assert np.array_equal(result.counts, other.counts)
    assert np.array_equal(result.reporters, other.reporters)


def truth(repetitions):
    return gpu_rsfd.simulate(gpu_rsfd.SyntheticDataset(20000, (10,) * 3), repetitions=repetitions)


def test_the_same_integers(lasting, tmp_path):
    """All samplers, noises that C does not know, in simulate, sweep and attack."""
    place = str(lasting.file)
    for data, sampler in ((TABLE, "users"), (TABLE, "counts"), (SMALL, "marginals")):
        there, here = (
            gpu_rsfd.simulate(data, **OPTIONS, repetitions=9, sampler=sampler, cluster=cluster)
            for cluster in (place, None)
        )
        same(there, here)
    results = gpu_rsfd.sweep([SMALL, TABLE], repetitions=11, output=tmp_path / "r.h5", cluster=place, **OPTIONS)
    for data in (SMALL, TABLE):
        same(results[data.name], gpu_rsfd.simulate(data, **OPTIONS, repetitions=11))
    more = gpu_rsfd.sweep([SMALL, TABLE], repetitions=20, output=tmp_path / "r.h5", **OPTIONS)  # without a cluster
    assert more.computed == 18
    for knowledge in ("true", "estimated"):
        options = {**OPTIONS, "protocols": ["rsfd-grr", "spl-adp"], "knowledge": knowledge, "repetitions": 3}
        there, here = (gpu_rsfd.attack(SMALL, cluster=cluster, **options) for cluster in (place, None))
        assert np.array_equal(there.sampled_success, here.sampled_success, equal_nan=True)
        assert np.array_equal(there.value_success, here.value_success)


def test_users_are_shared(lasting, monkeypatch):
    """A repetition is cut into pieces, which all workers count."""
    seen = set()
    monkeypatch.setattr("gpu_rsfd.backends.cpu.backend.POSITIONS_PER_TASK", 1 << 16)
    plan = Plan.of(TABLE.domain, OPTIONS["protocols"], OPTIONS["epsilons"])
    with Cluster(str(lasting.file)) as cluster, gpu_rsfd.backends.open_backend("numpy", 1)[0] as one:
        counts, sampled = cluster.count(plan, TABLE, 3, range(5, 7), seen.add)
        expected, who = one.count(plan, TABLE, 3, range(5, 7))
    assert all(np.array_equal(a, b) for a, b in zip([*counts, sampled], [*expected, who], strict=True))
    assert max(seen) < plan.positions(TABLE.n)


def test_a_few_large_repetitions_are_shared(lasting, tmp_path, monkeypatch):
    """A sweep of fewer repetitions than workers: all of them count each."""
    shared = []
    count = Cluster.count
    monkeypatch.setattr(Cluster, "count", lambda *arguments: shared.append(1) or count(*arguments))
    options = {**OPTIONS, "repetitions": 1}
    for large in (0, 1 << 30):
        monkeypatch.setattr("gpu_rsfd.running.collect.LARGE", large)
        output = tmp_path / f"{large}.h5"
        found = gpu_rsfd.sweep(TABLE, output=output, cluster=str(lasting.file), **options)[TABLE.name]
        assert np.array_equal(found.counts, gpu_rsfd.simulate(TABLE, **options).counts)
        assert len(shared) == 1


def test_workers_that_are_killed(two, tmp_path):
    """All of them one after another, while new ones join: nothing is lost, nothing is wrong."""
    process = start("sweep", *LONG, "--cluster", two.file, "--quiet", cwd=tmp_path)
    until(lambda: saved(tmp_path) > 50_000, process)
    for worker in list(two.workers):
        two.kill(worker)
        two.worker()
        time.sleep(0.3)
    assert process.communicate(timeout=120) == ("", "")
    (result,) = gpu_rsfd.open_results(tmp_path / "results.h5").values()
    same(result, truth(400))
    assert [path.name for path in tmp_path.iterdir()] == ["results.h5"]


def test_the_data_are_sent_again_to_whoever_comes(two):
    with Cluster(str(two.file)) as cluster:
        answers = cluster.map(TABLE, slowly, [(number,) for number in range(30)])
        assert next(answers) == (0, int(TABLE.column(0, 0, TABLE.n).sum()))
        for worker in list(two.workers):
            two.kill(worker)
        two.worker()
        assert [number for number, _ in answers] == list(range(1, 30))


def slowly(columns, number):
    time.sleep(0.05)
    return number, int(columns(0, 0, columns.dataset.n).sum())


def test_a_client_that_is_killed_and_one_that_is_interrupted(two, tmp_path):
    for end in (signal.SIGKILL, signal.SIGINT):
        process = start("sweep", *LONG[:-4], "4000", *LONG[-3:], "--cluster", two.file, cwd=tmp_path)
        before = saved(tmp_path)
        until(lambda before=before: saved(tmp_path) > before + 50_000, process)
        process.send_signal(end)
        _, err = process.communicate(timeout=60)
        assert process.returncode == (130 if end == signal.SIGINT else -9)
    assert "Traceback" not in err
    assert "what is done is kept" in err, err
    assert "to continue:\n  gpu-rsfd sweep" in err
    assert call_in(tmp_path, "sweep", *LONG[:-4], "4000", *LONG[-3:], "--quiet") == ("", "")
    (result,) = gpu_rsfd.open_results(tmp_path / "results.h5").values()
    same(result, truth(4000))


def call_in(folder, *arguments):
    return start(*arguments, cwd=folder).communicate(timeout=120)


def test_a_lost_scheduler(two, tmp_path):
    process = start("sweep", *LONG[:-4], "4000", *LONG[-3:], "--cluster", two.file, cwd=tmp_path)
    until(lambda: saved(tmp_path) > 50_000, process)
    two.kill(two.scheduler)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "the scheduler is gone; what is done is kept" in err, err
    assert "to continue:\n  gpu-rsfd sweep" in err
    assert "Traceback" not in err
    assert len(next(iter(gpu_rsfd.open_results(tmp_path / "results.h5").values())).repetitions) >= 1


def test_other_versions_are_one_line(lasting, monkeypatch):
    words = r"^worker tcp://\S+ has gpu-rsfd .*, stream 1 and NumPy .*, the client gpu-rsfd 9\.9; the same are needed$"
    with Cluster(str(lasting.file)) as cluster:
        monkeypatch.setattr(clusters, "VERSIONS", "gpu-rsfd 9.9")
        with pytest.raises(RunError, match=words):
            list(cluster.map(SMALL, slowly, [(1,)]))


def test_errors_and_what_is_the_users_own(lasting):
    """Classes and functions of a script go along; errors of ours come back as such, a bug with its place."""

    class Local(gpu_rsfd.SyntheticDataset):
        pass

    def fails(engine, data, error):
        raise error

    taken = []

    def items():
        for number in range(40):
            taken.append(number)
            yield (number,)

    with Cluster(str(lasting.file)) as cluster:
        assert [answer for answer, _ in cluster.map(Local(50, (3,)), slowly, [(1,), (2,)])] == [1, 2]
        locked = Local(50, (3,))
        locked.lock = threading.Lock()
        with pytest.raises(InputError, match=r"^data set 'synthetic' can't be sent to a cluster: .*lock"):
            list(cluster.map(locked, slowly, [(1,)]))
        for error in (InputError, RunError, MemoryError):
            with pytest.raises(error, match=r"^said so$") as raised:
                list(cluster.stream([(SMALL, fails, (error("said so"),))]))
            assert raised.type is error
        with pytest.raises(
            RuntimeError, match=r"(?s)in a worker of the cluster:.*in fails.*KeyError: 'no such'"
        ) as raised:
            list(cluster.stream([(SMALL, fails, (KeyError("no such"),))]))
        assert not isinstance(raised.value, RunError)
        for done, ((number,), answer) in enumerate(cluster.stream((SMALL, engine_there, item) for item in items())):
            assert (number, 1) == answer
            assert len(taken) - done <= 2 * clusters.IN_FLIGHT


def engine_there(engine, data, number):
    return number, engine.workers


def test_a_worker_with_a_gpu(none):
    """It is asked for by its resource; without CUDA, or with more than one thread, it says so."""
    none.worker()
    with pytest.raises(RunError, match="has no worker with a GPU"):
        Cluster(str(none.file), "cupy")
    for threads, error in (("1", "backend 'cupy' is not available"), ("2", r"has a GPU and 2 threads; start it with")):
        gpu = none.worker("--resources", "GPU=1", "--nthreads", threads, CUDA_VISIBLE_DEVICES="0")
        with Cluster(str(none.file)) as cluster:
            until(lambda: len(cluster._workers()) == 2)
        with pytest.raises((InputError, RunError), match=error):
            gpu_rsfd.simulate(SMALL, **OPTIONS, repetitions=1, cluster=str(none.file), backend="cupy")
        none.kill(gpu)


def test_patience(two, monkeypatch):
    """What is waited for is said; what is done is not lost; after a while it is given up."""
    lines = []
    monkeypatch.setattr(clusters, "QUIET_SECONDS", 0.5)
    with Cluster(str(two.file), patience=20.0, say=lines.append) as cluster:
        until(lambda: cluster.threads == 2)
        for worker in two.workers:
            worker.send_signal(signal.SIGSTOP)
        later = threading.Timer(2.0, lambda: [worker.send_signal(signal.SIGCONT) for worker in two.workers])
        later.start()
        assert len(list(cluster.map(SMALL, slowly, [(number,) for number in range(8)]))) == 8
        assert any("nothing came back for" in line and "2 workers alive" in line for line in lines), lines
        cluster.patience = 3.0
        two.scheduler.send_signal(signal.SIGSTOP)
        with pytest.raises(
            RunError, match=r"nothing came back for \d+ s \(no worker, or the scheduler does not answer"
        ):
            list(cluster.map(SMALL, slowly, [(1,)]))
        two.scheduler.send_signal(signal.SIGCONT)


class Stops:
    """A result with which its worker stops: as if the link were cut while it is fetched."""

    def __reduce__(self):
        os.kill(os.getpid(), signal.SIGSTOP)
        return int, (5,)


def stops(columns, number):
    return Stops() if number == 3 else number


def test_a_result_that_does_not_come_is_told_of(two, monkeypatch):
    """Done, but still on a worker that does not answer."""
    lines = []
    monkeypatch.setattr(clusters, "QUIET_SECONDS", 0.5)
    with Cluster(str(two.file), say=lines.append) as cluster:
        until(lambda: cluster.threads == 2)
        later = threading.Timer(4.0, lambda: [worker.send_signal(signal.SIGCONT) for worker in two.workers])
        later.start()
        assert list(cluster.map(SMALL, stops, [(number,) for number in range(6)])) == [0, 1, 2, 5, 4, 5]
        assert any("nothing came back for" in line and "of 2 workers alive" in line for line in lines), lines


def test_no_worker_at_all(none):
    with pytest.raises(RunError, match="can't be used: no worker joined it"):
        Cluster(str(none.file), patience=1.0)


# --------------------------------------------------------------------------------------------------- a local cluster


def listening(process):
    """Addresses that a process listens on, in hexadecimal as /proc has them."""
    inodes = set()
    for path in (process / "fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.add(os.readlink(path).removeprefix("socket:[").removesuffix("]"))
    lines = [line.split() for table in ("tcp", "tcp6") for line in (process / "net" / table).read_text().splitlines()]
    return [fields[1].partition(":")[0] for fields in lines if fields[3] == "0A" and fields[9] in inodes]


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


def pid_there(engine, data):
    return os.getpid()


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="needs Linux")
def test_a_local_cluster_is_nobody_elses():
    """One port for each process, on the loopback interface, for holders of the certificate; no web server."""
    before = listening(Path("/proc/self"))
    with Cluster("local:1") as cluster:
        ((_, pid),) = cluster.stream([(SMALL, pid_there, ())])
        assert pid != os.getpid()
        assert listening(Path(f"/proc/{pid}")) == ["0100007F"]
        assert sorted(listening(Path("/proc/self"))) == sorted([*before, "0100007F"])
        address = cluster._client.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        stranger = ssl.create_default_context()
        stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
        assert greeting(address) == greeting(address, stranger) == b""
        assert greeting(address, cluster._client.security.get_connection_args("client")["ssl_context"])
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("arguments,code,message", [
    (["--cluster", "local:none"], 2, "cluster=local:none must name a number of workers, such as local:4"),
    (["--cluster", "head"], 2, "cluster=head must be a scheduler's address (tcp://…), its file, or local:4"),
    (["--cluster", "local:2", "--workers", "2"], 2, "workers and devices can't be given for a cluster"),
    (["--patience", "5"], 2, "must be a number of seconds > 0, and needs --cluster"),
    (["--cluster", "local:1", "--patience", "0"], 2, "must be a number of seconds > 0, and needs --cluster"),
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
