"""A Dask cluster gives what this process gives, whatever happens to its workers, and leaves nothing behind."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace

import dask
import distributed
import numpy as np
import pytest

import pliant
from pliant.crew import Threads
from pliant.distributed import ClusterLost
from pliant.distributed.dask_crew import DaskCrew
from pliant.distributed.flight import LARGE, packed
from pliant.distributed.pinning import VARIABLES, pin
from pliant.distributed.tasks import do_part

COUNTS = (1, 2, 3, 7)


@pytest.fixture(scope="module")
def crew():
    # Fewer deaths until Dask gives a task up: each costs a second.
    with dask.config.set({"distributed.scheduler.allowed-failures": 1}), pliant.connect("local:2") as crew:
        yield crew


def test_a_killed_process_comes_back_however_long_it_takes():
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "50ms"}),
        pliant.connect("local:1") as crew,
    ):
        client = crew._link.client
        [gone] = client.run(os.getpid).values()
        os.kill(gone, signal.SIGKILL)
        # Dask would close it again, as soon as it is there.
        time.sleep(2)
        deadline = time.monotonic() + 60
        while list(client.run(os.getpid, on_error="ignore").values()) in ([], [gone]):
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.fixture
def client(crew):
    """The client of the cluster, as a user may have one."""
    client = crew._link.client
    client.wait_for_workers(2, timeout=120)
    return client


def thirds(parts, scale, *, threads):
    for part in parts:
        yield np.float32(part + 1) * scale / 3


def added(first, second):
    return first * np.float32(1.1) + second


def seen(first, second, *, threads):
    return first + second, threads


def where(parts, shared, *, threads):
    for _ in parts:
        time.sleep(0.01)
        yield os.getpid(), shared.prepared


class Shared:
    @cached_property
    def prepared(self):
        return uuid.uuid4().hex

    def __getstate__(self):
        return {}


@pytest.mark.parametrize("count", COUNTS)
def test_the_crew_of_a_cluster_gives_the_same_bits(crew, count):
    parts, scale = list(range(count)), np.float32(0.7)
    assert sorted(crew.each(thirds, parts, scale)) == sorted(Threads().each(thirds, parts, scale))
    assert crew.merged(thirds, parts, added, scale) == Threads().merged(thirds, parts, added, scale)
    assert crew.one(seen, count, 1) == (count + 1, 1)


def test_no_parts(crew):
    assert list(crew.each(thirds, [], 1.0)) == []
    with pytest.raises(ValueError, match="nothing to merge"):
        crew.merged(thirds, [], added, 1.0)


def test_functions_of_a_script_travel(crew):
    offset = 3
    assert crew.one(lambda value, *, threads: value + offset, 4) == 7


def test_large_parts_and_arguments_travel_by_themselves(crew):
    """Dask warns of large tasks, and a warning is an error here."""
    large = [np.full(12 * LARGE // 8, number, float) for number in range(3)]

    def sums(parts, *, threads):
        return (float(part.sum()) for part in parts)

    assert sorted(crew.each(sums, large)) == sorted(Threads().each(sums, large))
    assert crew.one(lambda array, *, threads: float(array.sum()), large[1]) == large[1].sum()


def test_what_is_shared_is_one_object_a_worker(crew, client, tmp_path):
    """What is prepared from it is prepared once, also by a worker that came later and has it from another."""

    def prepared(shared):
        return {outcome for _, outcome in crew.each(where, range(40), shared)}

    shared = Shared()
    first = prepared(shared)
    assert len(first) == len({pid for pid, _ in first}) == 2
    # Calls in a row share it, even if Dask has dropped a copy that waited for no task.
    client.amm.run_once()
    assert prepared(shared) == first
    gone = next(iter(first))[0]
    os.kill(gone, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while len(pids := set(client.run(os.getpid, on_error="ignore").values())) < 2 or gone in pids:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    later = prepared(shared)
    assert len(later) == len({pid for pid, _ in later}) == 2
    assert len(first & later) == 1


def test_what_is_shared_no_longer_leaves_the_workers(crew, client):
    list(crew.each(where, range(2), Shared()))
    for _ in crew.each(thirds, range(2), 1.0):
        pass
    deadline = time.monotonic() + 5
    while any(client.has_what().values()):
        assert time.monotonic() < deadline, client.has_what()
        time.sleep(0.05)


def dying(parts, values, folder, pids, *, threads):
    """Part 3 kills workers of these numbers when it is first done, itself last."""
    for part in parts:
        number = part if isinstance(part, int) else int(part[0])
        if number == 3 and not (Path(folder) / "dead").exists():
            (Path(folder) / "dead").touch()
            for pid in sorted(pids, key=lambda pid: pid == os.getpid()) or [os.getpid()]:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
        yield values * np.float32(number + 0.1)


@pytest.mark.parametrize("all_die", [False, True], ids=["one dies", "all die"])
def test_killed_workers_change_no_result(crew, client, tmp_path, all_die):
    """Even if nobody is left who has what was shared: Dask cannot compute that again."""
    pids = list(client.run(os.getpid).values()) if all_die else []
    arguments = np.arange(3, dtype=np.float32), str(tmp_path), pids
    got = dict(crew.each(dying, range(12), *arguments))
    assert (tmp_path / "dead").exists()
    for number, result in Threads().each(dying, range(12), *arguments):
        np.testing.assert_array_equal(got.pop(number), result)
    assert not got


# Dask tries for half a minute to send a large part to a worker that has just died.
@pytest.mark.parametrize(
    "size", [1, pytest.param(LARGE // 4, marks=pytest.mark.slow)], ids=["small", "large"]
)
def test_a_killed_worker_changes_no_bit_of_what_is_merged(crew, tmp_path, size):
    """Large parts are lost with the worker, as well as results that wait on it."""
    parts = [np.full(size, number, np.float64) for number in range(12)]
    arguments = np.arange(3, dtype=np.float32), str(tmp_path), []
    got = crew.merged(dying, parts, added, *arguments)
    assert (tmp_path / "dead").exists()
    np.testing.assert_array_equal(got, Threads().merged(dying, parts, added, *arguments))


def test_values_are_shared_again_if_no_worker_was_left_for_the_copies(crew, monkeypatch):
    client, asked = crew._link.client, []
    real = client.scatter

    async def refused():
        raise ValueError("Can not use replicate to delete data")

    def scatter(*arguments, **options):
        asked.append(options)
        return refused() if len(asked) == 1 else real(*arguments, **options)

    monkeypatch.setattr(client, "scatter", scatter)
    scale = np.arange(3.0)
    got = crew.merged(thirds, range(4), added, scale)
    assert len(asked) > 1
    np.testing.assert_array_equal(got, Threads().merged(thirds, range(4), added, scale))


class Named(int):
    """A part that knows what it is called."""

    @property
    def label(self):
        return f"{int(self)} (a to b)"


def deadly(parts, *shared, threads):
    for part in parts:
        if part == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        yield part


@pytest.mark.slow  # eight processes are killed and started again
@pytest.mark.parametrize("shared", [(), (np.ones(3),)], ids=["nothing shared", "shared"])
def test_a_part_that_kills_workers_is_named_after_the_others_are_done(crew, shared):
    """Also where all workers die before one is back: what they share is lost then, and Dask counts no death."""
    done = []
    with pytest.raises(ClusterLost, match=r"^part 2 \(a to b\): .* memory") as raised:
        done.extend(crew.each(deadly, [Named(number) for number in range(8)], *shared))
    assert sorted(number for number, _ in done) == [0, 1, 3, 4, 5, 6, 7]
    assert isinstance(raised.value, OSError)


def failing(parts, folder, *, threads):
    for part in parts:
        if part == 1:
            raise ZeroDivisionError("mine")
        time.sleep(0.02)
        (Path(folder) / str(part)).touch()
        yield part


def test_errors_of_the_work_arrive_as_themselves_and_stop_the_rest(crew, tmp_path):
    with pytest.raises(ZeroDivisionError, match="mine"):
        list(crew.each(failing, range(500), str(tmp_path)))
    with pytest.raises(ZeroDivisionError, match="mine"):
        crew.merged(failing, range(500), added, str(tmp_path))
    assert len(list(tmp_path.iterdir())) < 50
    # What was under way does no harm to the next call.
    assert crew.one(seen, 1, 2) == (3, 1)


def test_leaving_early_cancels_the_rest(crew, client):
    results = crew.each(where, range(1000), Shared())
    next(results)
    results.close()
    deadline = time.monotonic() + 5
    while any(client.processing().values()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Counted:
    """There is a file for each of these in any process."""

    def __init__(self, folder, value):
        self.folder, self.value, self.file = folder, value, Path(folder) / uuid.uuid4().hex
        self.file.touch()

    def __reduce__(self):
        return Counted, (self.folder, self.value)

    def __del__(self):
        self.file.unlink(missing_ok=True)


def counted(parts, folder, *, threads):
    for part in parts:
        # The first part is late: no neighbour of the others may wait for it.
        time.sleep(0.5 if part == 0 else 0.01)
        yield Counted(folder, (part, len(os.listdir(folder))))


def most(first, second):
    return Counted(first.folder, max(first.value, second.value, key=lambda value: value[1]))


def test_few_results_wait_to_be_merged(crew, tmp_path):
    result = crew.merged(counted, range(100), most, str(tmp_path))
    # Twice the threads and the depth of the tree are 11; the others are copies that Dask is about to drop.
    assert 2 <= result.value[1] < 40


_BURNING = """
import sys, threading, time
import psutil
from pliant.distributed.pinning import pin
import cv2
import numpy as np

square, pixels = np.ones((700, 700)), np.zeros((700, 700), np.uint8)
tasks = [lambda: square @ square, lambda: cv2.bilateralFilter(pixels, 9, 50, 50)]
if sys.argv[1] == "Numba":
    import numba

    @numba.njit(parallel=True)
    def summed(values):
        total = 0.0
        for k in numba.prange(values.size):
            total += np.sin(values[k])
        return total

    tasks = [lambda: summed(square.ravel())]

def used():
    return {thread.id: thread.user_time + thread.system_time for thread in psutil.Process().threads()}

def measure(threads):
    pin(threads)
    for task in tasks:
        task()
        before, end = used(), time.monotonic() + 0.4
        while time.monotonic() < end:
            task()
        spent = [time - before.get(thread, 0) for thread, time in used().items()]
        print(sum(time > sum(spent) / 8 for time in spent))

for threads in (1, 2):
    # A task of a worker is never in the first thread of a process.
    thread = threading.Thread(target=measure, args=[threads])
    thread.start()
    thread.join()
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
@pytest.mark.parametrize("library", ["BLAS and OpenCV", pytest.param("Numba", marks=pytest.mark.slow)])
def test_a_pinned_thread_burns_alone(library):
    """With two threads, the same measurement sees more than one: OpenCV may take turns with a third."""
    free = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    done = subprocess.run([sys.executable, "-c", _BURNING, library], capture_output=True, text=True, env=free)
    measured = list(map(int, done.stdout.split()))
    count = len(library.split(" and "))
    assert measured[:count] == [1] * count, done.stderr
    assert len(measured) == 2 * count
    assert min(measured[count:]) >= 2


def pools(parts, *, threads):
    import cv2
    import threadpoolctl

    for _ in parts:
        yield (
            max(pool["num_threads"] for pool in threadpoolctl.threadpool_info()),
            cv2.getNumThreads(),
            threads,
        )


def test_every_task_is_pinned_though_others_change_that(crew, client):
    client.run(pin, 2)
    assert {outcome for _, outcome in crew.each(pools, range(6))} == {(1, 1, 1)}


def test_workers_are_pinned_from_the_start_and_this_process_is_not(client):
    told = client.run(lambda: (os.environ["NUMBA_NUM_THREADS"], "CUDA_VISIBLE_DEVICES" in os.environ))
    assert set(told.values()) == {("1", False)}
    assert "NUMBA_NUM_THREADS" not in os.environ


def test_workers_share_the_memory_and_have_a_thread_each(client):
    workers = client.scheduler_info()["workers"].values()
    assert [worker["nthreads"] for worker in workers] == [1, 1]
    assert sum(worker["memory_limit"] for worker in workers) <= distributed.system.MEMORY_LIMIT


def test_a_client_is_used_and_left_alone(client):
    with pliant.connect(client) as crew:
        assert crew.one(seen, 1, 2) == (3, 1)
    assert client.status == "running"


def test_an_address_and_a_scheduler_file(crew, client, tmp_path):
    address, file = client.scheduler.address, tmp_path / "scheduler.json"
    file.write_text(json.dumps({"address": address}))
    for place in (address, file):
        with pliant.connect(place) as other:
            assert other.one(seen, 1, 2) == (3, 1)
    assert crew.one(seen, 1, 2) == (3, 1)


def test_other_versions_are_named(client, monkeypatch):
    monkeypatch.setattr(pliant, "__version__", "0.0.1")
    with pytest.raises(
        ValueError, match=r"worker tcp://\S+ has Python .* pliant \S+, but this process has .* pliant 0.0.1"
    ):
        pliant.connect(client).__enter__()
    # One that has joined since is not asked, but told.
    with pytest.raises(
        ValueError, match=r"worker tcp://\S+ has pliant \S+, but this process has pliant 0.0.1"
    ):
        client.submit(do_part, "0.0.1", packed(thirds), packed(1), [""], 1.0).result()


def test_workers_without_pliant_are_named(client):
    def hide():
        sys.modules["was pliant"], sys.modules["pliant"] = sys.modules["pliant"], None

    def show():
        sys.modules["pliant"] = sys.modules.pop("was pliant")

    client.run(hide)
    try:
        with pytest.raises(ValueError, match=r"pliant is not installed on the worker tcp://\S+:"):
            pliant.connect(client).__enter__()
    finally:
        client.run(show)


@pytest.mark.parametrize("place", ["local:0", "local", "host:8786", "tcp://", "", 4])
def test_what_is_no_cluster_is_refused(place):
    with pytest.raises(ValueError, match="is not a cluster: give 'tcp://host:8786'"):
        pliant.connect(place).__enter__()


def test_nobody_there(tmp_path):
    with pytest.raises(ClusterLost, match="tcp://127.0.0.1:9: no Dask scheduler answered"):
        pliant.connect("tcp://127.0.0.1:9", patience=0.5).__enter__()
    with pytest.raises(ValueError, match="no.json: this file does not exist"):
        pliant.connect(tmp_path / "no.json", patience=0.1).__enter__()
    (tmp_path / "empty.json").write_text("{}")
    with pytest.raises(ValueError, match="empty.json: this is not a Dask scheduler file"):
        pliant.connect(tmp_path / "empty.json").__enter__()


def test_what_runs_alone_prefers_a_gpu_and_then_many_threads():
    workers = {
        "a": {"nthreads": 2, "resources": {}},
        "b": {"nthreads": 8, "resources": {"memory": 1.0}},
        "c": {"nthreads": 1, "resources": {"GPU": 1.0}},
    }
    link = SimpleNamespace(await_workers=lambda: None, identity=lambda: {"workers": workers})
    assert DaskCrew(link)._preferred() == "c"
    del workers["c"]
    assert DaskCrew(link)._preferred() == "b"


def test_dask_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(OSError, match=re.escape("pip install 'pliant[cluster]'")):
        pliant.connect("local:2").__enter__()


def test_without_workers_or_a_scheduler_there_is_a_sentence():
    """A scheduler that ends is noticed in a moment, and not after the half minute in which Dask hopes for it."""
    place = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(
        n_workers=0, processes=False, protocol="tcp://", scheduler_kwargs=place
    ) as cluster:
        with pytest.raises(ClusterLost, match="no workers for 0 s"):
            pliant.connect(cluster.scheduler_address, patience=0.3).__enter__()
        cluster.scale(1)
        with pliant.connect(cluster.scheduler_address) as crew:
            threading.Timer(0.3, cluster.close).start()
            begin = time.monotonic()
            with pytest.raises(ClusterLost, match="connection to the Dask scheduler is lost"):
                for _ in crew.each(where, range(10_000), Shared()):
                    pass
            assert time.monotonic() - begin < 5


_SCRIPT = """
import os
import pliant

print("begin")

def doubled(parts, *, threads):
    for part in parts:
        yield 2 * part

with pliant.connect("local:1") as cluster:
    print(sorted(cluster.each(doubled, range(3))))
print(os.path.basename(__file__), "NUMBA_NUM_THREADS" in os.environ)
"""


def test_a_plain_script_needs_no_guard_and_hears_nothing_of_dask(tmp_path):
    (tmp_path / "script.py").write_text(_SCRIPT)
    done = subprocess.run([sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("begin\n[(0, 0), (1, 2), (2, 4)]\nscript.py False\n", "")


def test_options_of_commands():
    from pliant.cli.options import crew_told

    with crew_told(3, None, None) as jobs:
        assert jobs == 3
    with pytest.raises(ValueError, match="--cluster and --scheduler-file"):
        crew_told(None, "local:2", Path("file")).__enter__()
    with pytest.raises(ValueError, match="--jobs sets the threads of this process"):
        crew_told(2, "local:2", None).__enter__()
    with pytest.raises(ValueError, match="'nowhere' is not a cluster"):
        crew_told(None, "nowhere", None).__enter__()
