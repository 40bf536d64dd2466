"""What can go wrong on a cluster, done to real processes: nothing is lost, nothing done twice, and pliant says so.

    python benchmarks/cluster_faults.py [--only NAME]

Each fault is shown with the command line, and with schedulers and workers of Dask in processes of their own, which
are killed by SIGKILL in the middle of the work. Tables must be those of one undisturbed process, every column but
the seconds to the last bit. That nothing was fitted twice is seen in the seconds: images that were done before
still have theirs. A line for each step says what was done and what pliant said, and one how it ended; the exit code
is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
from PIL import Image

import pliant
from cluster_processes import (
    Command,
    Said,
    Stage,
    bits,
    check_table,
    cluster,
    kept,
    kill_group,
    markers_of,
    wait_for_parts,
    wait_until,
)
from pliant.bulk.parts import FOLDER, markers_in, read_plan
from pliant.synthetic import faces, write_faces
from pliant.table import TABLE, rows_of

IMAGES, SIZE = 120, 112

Shown = Iterator[tuple[str, Said]]
"""What was done, and what pliant said to it."""


def expect(said: Said, code: int, *words: str) -> Said:
    assert said.code == code, f"exit code {said.code}, and not {code}: {said.text}"
    for word in words:
        assert word in said.text, f"'{word}' is not in: {said.text}"
    assert "Traceback" not in said.text, said.text
    return said


def worker_killed(stage: Stage) -> Shown:
    output = stage.name("out")
    with cluster(stage) as dask:
        command = stage.fit(output, *dask.option)
        done = wait_for_parts(output, 4, command)
        before = kept(output)
        kill_group(dask.workers[0])
        said = expect(command.end(), 0)
    check_table(stage, output, before)
    yield f"one of two workers killed after {done} parts", said


def scheduler_killed(stage: Stage) -> Shown:
    output = stage.name("out")
    with cluster(stage) as dask:
        command = stage.fit(output, *dask.option)
        done = wait_for_parts(output, 4, command)
        kill_group(dask.scheduler)
        yield (
            f"the scheduler killed after {done} parts",
            expect(command.end(), 1, "connection to the Dask scheduler is lost", "--resume"),
        )
    before = kept(output)
    with cluster(stage) as dask:
        yield (
            "the command again, on a new cluster",
            expect(stage.fit(output, *dask.option).end(), 1, "go on with --resume"),
        )
        said = expect(
            stage.fit(output, *dask.option, "--resume").end(), 0, f"{len(before)} images are from before"
        )
    check_table(stage, output, before)
    yield "and with --resume", said


def client_killed(stage: Stage) -> Shown:
    output = stage.name("out")
    with cluster(stage) as dask:
        command = stage.fit(output, *dask.option)
        done = wait_for_parts(output, 4, command)
        command.kill()
        # The workers finish what they have begun.
        time.sleep(1)
        before = kept(output)
        said = expect(stage.fit(output, *dask.option, "--resume").end(), 0, "from before")
    check_table(stage, output, before)
    yield f"the command killed after {done} parts, and given again with --resume", said


def out_of_memory(stage: Stage) -> Shown:
    images = stage.name("images")
    shutil.copytree(stage.images, images)
    Image.fromarray(np.zeros((13000, 13000), np.uint8)).save(images / "face-0060.png", compress_level=1)
    (images / "face-0060.jpg").unlink()
    alone, output = stage.name("alone"), stage.name("out")
    expect(stage.fit(alone, "--jobs", "1", images=str(images)).end(), 0)
    with cluster(stage, memory="700MB") as dask:
        said = stage.fit(output, *dask.option, images=str(images)).end()
    expect(said, 1, "face-0056.jpg to ", "memory", "--resume")
    plan = read_plan(output / FOLDER)
    assert plan is not None
    done = len(markers_in(output / FOLDER, plan))
    assert done == plan.parts - 1, f"{done} parts of {plan.parts} are done"
    yield "an image of 13,000 x 13,000 pixels for workers of 700 MB", said
    before = kept(output)
    with cluster(stage, workers=1, memory="8GB") as dask:
        said = expect(stage.fit(output, *dask.option, "--resume", images=str(images)).end(), 0)
    check_table(stage, output, before, expected=bits(alone / TABLE))
    yield f"a worker of 8 GB, and --resume with {done} of {plan.parts} parts done", said


def unreadable(stage: Stage) -> Shown:
    images, output = stage.name("images"), stage.name("out")
    shutil.copytree(stage.images, images)
    files = sorted(images.iterdir())
    size = IMAGES // 16
    garbage, removed = files[3 * size : 4 * size], files[-(IMAGES % size or size) :]
    for file in garbage:
        file.write_bytes(os.urandom(500))
    with cluster(stage) as dask:
        command = stage.fit(output, *dask.option, images=str(images))
        wait_for_parts(output, 2, command)
        for file in removed:
            file.unlink()
        said = expect(command.end(), 3, f"{len(garbage) + len(removed)} could not be fitted")
    rows = list(rows_of(output / TABLE))
    assert [row["image"] for row in rows] == list(map(str, files))
    reasons = {row["image"]: row["reason"] for row in rows if row["status"] == "failed"}
    assert reasons.keys() == {str(file) for file in garbage + removed}
    assert all("not an image" in reasons[str(file)] for file in garbage)
    assert all("no such image" in reasons[str(file)] for file in removed)
    found = zip(bits(output / TABLE, f"{images}/"), bits_of(stage), strict=True)
    others = [pair for file, pair in zip(files, found, strict=True) if str(file) not in reasons]
    assert all(one == two for one, two in others), "rows of other images are not those of one process"
    yield "the images of one part overwritten with noise, those of another removed meanwhile", said


def bits_of(stage: Stage) -> list[str]:
    return [row.replace(f"{stage.images}/", "") for row in stage.rows]


def damaged(stage: Stage) -> Shown:
    output = stage.name("out")
    for number in (1, 2):
        expect(stage.fit(output, "--shard", f"{number}/2", "--jobs", "1").end(), 0)
    before = kept(output)
    [short] = (output / FOLDER).glob("000008-*.parquet")
    short.write_bytes(short.read_bytes()[:-100])
    yield (
        "the file of part 8 cut short",
        expect(stage.command("merge", str(output)).end(), 1, "1 of 18 parts is missing", "the shard 1/2"),
    )
    expect(stage.fit(output, "--shard", "1/2", "--jobs", "1").end(), 0)
    [flipped] = (output / FOLDER).glob("000005-*.parquet")
    content = bytearray(flipped.read_bytes())
    content[len(content) // 2] ^= 1
    flipped.write_bytes(content)
    yield (
        "a bit of the file of part 5 flipped",
        expect(stage.command("merge", str(output)).end(), 1, "1 of 18 parts is damaged", "the shard 2/2"),
    )
    with cluster(stage, workers=1) as dask:
        said = expect(stage.fit(output, *dask.option, "--resume").end(), 0)
    size = IMAGES // 16
    again = {
        str(file)
        for number in (5, 8)
        for file in sorted(stage.images.iterdir())[number * size : (number + 1) * size]
    }
    check_table(stage, output, {name: value for name, value in before.items() if name not in again})
    yield "and --resume, on a cluster", said


def full_disk(stage: Stage) -> Shown:
    disk = stage.name("disk")
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=250k", "none", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        yield "not shown: to mount a small disk, be root", Said(0, "nothing")
        return
    try:
        output = disk / "out"
        with cluster(stage) as dask:
            said = expect(stage.fit(output, *dask.option).end(), 1, "No space left on device", "--resume")
            done = markers_of(output)
            yield f"a disk of 250 KB, full after {done} parts", said
            before = kept(output)
            remount(disk, "900k")
            command = stage.fit(output, *dask.option, "--resume")
            wait_until(
                lambda: markers_of(output) > 15 or command.process.poll() is not None, "the last parts"
            )
            fill(disk, 60_000)
            said = expect(command.end(), 1, "No space left on device", "--resume")
            before = {**before, **kept(output)}
            yield f"full again, after {markers_of(output)} of 18 parts", said
        remount(disk, "9m")
        said = expect(stage.fit(output, "--shard", "1/1", "--jobs", "1").end(), 0, "all are done")
        before = {**kept(output), **before}
        yield "more room, and the rest as a shard", said
        fill(disk, 50_000)
        said = expect(stage.command("merge", str(output)).end(), 1, "No space left on device", str(output))
        assert not (output / TABLE).exists(), "there is a table that is not whole"
        yield "full again, at the merge", said
        (disk / "filler").unlink()
        with cluster(stage, workers=1) as dask:
            said = expect(stage.fit(output, *dask.option, "--resume").end(), 0)
        check_table(stage, output, before)
        yield "room again, and --resume", said
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def remount(disk: Path, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


def fill(disk: Path, left: int) -> None:
    """Leave so many bytes free."""
    status = os.statvfs(disk)
    with open(disk / "filler", "wb") as file:
        file.write(bytes(max(0, status.f_bavail * status.f_frsize - left)))


def shards(stage: Stage) -> Shown:
    output = stage.name("out")

    def shard(number: int, *more: str) -> Command:
        return stage.fit(output, "--shard", f"{number}/4", "--jobs", "1", *more)

    expect(shard(4).end(), 0)
    before = kept(output)
    said = expect(shard(4).end(), 0, "all before")
    assert kept(output) == before, "a shard that was done was fitted again"
    yield "shard 4/4 first, and again", said
    both = [shard(1), shard(2)]
    for one in both:
        expect(one.end(), 0)
    before = {**before, **kept(output)}
    merge = stage.command("merge", str(output))
    yield "1/4 and 2/4 at the same time, 3/4 missing", expect(merge.end(), 1, "those of the shard 3/4")
    other = shard(3, "--sampling", "0.5").end()
    yield "3/4 with another setting", expect(other, 1, "other settings", "sampling was 1.0, and is 0.5")
    for one in (shard(3), shard(3)):
        expect(one.end(), 0)
    before = {**kept(output), **before}
    for what, is_reached in (
        ("while it wrote the table", lambda: any(output.glob(f"{FOLDER}/.writing-*/*"))),
        ("when the table was there", (output / TABLE).is_file),
    ):
        killed_when(stage.command("merge", str(output)), is_reached, what)
        table = "there" if (output / TABLE).is_file() else "not there"
        plan = "there" if (output / FOLDER / "plan.json").is_file() else "gone"
        yield f"merge killed {what} (table {table}, plan {plan})", Said(-9, "nothing")
    merged = stage.fit(output, "--shard", "1/4", "--jobs", "1").end()
    again = stage.command("merge", str(output)).end()
    if again.code:
        expect(again, 1, "its table is there already")
    expect(merged, 0)
    check_table(stage, output, before)
    yield "merge again", again


def killed_when(command: Command, is_reached: Callable[[], bool], what: str) -> None:
    wait_until(lambda: is_reached() or command.process.poll() is not None, what, pause=0)
    command.kill()
    assert command.process.returncode == -signal.SIGKILL, f"merge ended before it was killed {what}"


def training(stage: Stage) -> Shown:
    images = stage.name("annotated")
    write_faces(images, 80, seed=3, image_size=SIZE)
    settings = ("--size", "60", "--shape-modes", "2,5", "--no-confidence", "--detector", "none")
    quiet, disturbed = stage.folder / "quiet.pliant", stage.folder / "disturbed.pliant"
    with cluster(stage) as dask:
        begin = time.monotonic()
        train = ("train", str(images), *settings, *dask.option)
        expect(stage.command(*train, "-o", str(quiet)).end(), 0)
        took = time.monotonic() - begin
        kills = 0
        command = stage.command(*train, "-o", str(disturbed))
        for _ in range(3):
            busy = next_busy(dask.file, command)
            if busy is None:
                break
            kill_group(next(one for one in dask.workers if busy in pids_of(one)))
            dask.workers = [one for one in dask.workers if one.poll() is None]
            kills += 1
            dask.add_worker()
            time.sleep(took / 4)
        said = expect(command.end(), 0)
    assert kills, "training ended before a worker could be killed"
    compare_models(quiet, disturbed)
    last = Said(said.code, said.text.splitlines()[-1])
    yield f"{kills} workers killed while they trained, each replaced by a new one", last


def pids_of(process: subprocess.Popen[bytes]) -> set[int]:
    try:
        own = psutil.Process(process.pid)
        return {own.pid, *(child.pid for child in own.children(recursive=True))}
    except psutil.Error:
        return set()


def next_busy(scheduler_file: Path, command: Command) -> int | None:
    """The process of a worker that is at work on something, once one is."""
    import distributed

    with distributed.Client(scheduler_file=str(scheduler_file), set_as_default=False) as client:
        while command.process.poll() is None:
            calls = client.processing()
            for address, tasks in calls.items():
                if tasks:
                    [pid] = client.run(os.getpid, workers=[address]).values()
                    return int(pid)
            time.sleep(0.05)
    return None


def compare_models(one: Path, other: Path) -> None:
    from pliant.container import read_container

    found = []
    for path in (one, other):
        with open(path, "rb") as file:
            found.append(read_container(path, file)[0])
    first, second = found
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert np.array_equal(value, second[name]), f"{name} is not the same"


def store(stage: Stage) -> Shown:
    import fsspec
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    names = {
        "AWS_ENDPOINT_URL": "http://{}:{}".format(*server.get_host_and_port()),
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    os.environ.update(names)
    try:
        system = fsspec.filesystem("s3", use_listings_cache=False)
        system.mkdir("bucket")
        system.put(str(stage.images), "bucket/images", recursive=True)
        system.put(str(stage.model), "bucket/model.pliant")
        places = {"images": "s3://bucket/images", "model": "s3://bucket/model.pliant"}
        said = expect(stage.fit("s3://bucket/out", "--cluster", "local:2", **places).end(), 0)
        check_table(stage, "s3://bucket/out", place="s3://bucket/images/")
        yield "images, model and output at s3://, on local:2", said
        command = stage.fit("s3://bucket/again", "--cluster", "local:2", **places)
        done = wait_for_parts("s3://bucket/again", 4, command)
        before = kept("s3://bucket/again")
        workers = [
            child
            for child in psutil.Process(command.process.pid).children(recursive=True)
            if "spawn_main" in " ".join(child.cmdline())
        ]
        workers[0].kill()
        said = expect(command.end(), 0)
        check_table(stage, "s3://bucket/again", before, place="s3://bucket/images/")
        yield f"and one of the two processes killed after {done} parts", said
    finally:
        for name in names:
            del os.environ[name]
        server.stop()


def two_commands(stage: Stage) -> Shown:
    output = stage.name("out")
    with cluster(stage) as dask:
        both = [stage.fit(output, *dask.option) for _ in range(2)]
        said = [one.end() for one in both]
        check_table(stage, output)
        assert 0 in (one.code for one in said), said[0].text
        for one, which in zip(said, ("first", "second"), strict=True):
            assert "Traceback" not in one.text, one.text
            yield f"the same command twice at the same time: the {which}", one
        output = stage.name("out")
        first = stage.fit(output, *dask.option)
        done = wait_for_parts(output, 3, first)
        second = stage.fit(output, *dask.option, "--resume")
        said = [expect(one.end(), 0) for one in (first, second)]
    check_table(stage, output)
    yield f"again with --resume after {done} parts, while the first is at work: the first", said[0]
    yield "and the second", said[1]


FAULTS: dict[str, Callable[[Stage], Shown]] = {
    "worker-killed": worker_killed,
    "scheduler-killed": scheduler_killed,
    "client-killed": client_killed,
    "out-of-memory": out_of_memory,
    "unreadable": unreadable,
    "damaged": damaged,
    "full-disk": full_disk,
    "shards": shards,
    "training": training,
    "store": store,
    "two-commands": two_commands,
}


@contextmanager
def prepared(folder: Path) -> Iterator[Stage]:
    """Images, a model and the table of one process that nobody disturbs."""
    stage = Stage(folder, folder / "model.pliant", folder / "images")
    try:
        write_faces(stage.images, IMAGES, seed=1, image_size=SIZE)
        for file in stage.images.glob("*.pts"):
            file.unlink()
        drawn = faces(60, image_size=SIZE)
        pliant.train(drawn, size=60, shape_modes=(2, 5), confidence=False, progress=False).save(stage.model)
        alone = stage.name("alone")
        begin = time.monotonic()
        expect(stage.fit(alone, "--jobs", "1").end(), 0)
        stage.rows = bits(alone / TABLE)
        print(f"undisturbed: {IMAGES} images by one process in {time.monotonic() - begin:.0f} s", flush=True)
        yield stage
    finally:
        for process in stage.started:
            kill_group(process)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=FAULTS, action="append", help="this fault alone; may be repeated")
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch, prepared(Path(scratch)) as stage:
        for name in options.only or FAULTS:
            begin = time.monotonic()
            try:
                for what, said in FAULTS[name](stage):
                    text = stage.shorter(" / ".join(said.text.splitlines()))
                    print(f"{name}: {what}; said: {text} (exit code {said.code})", flush=True)
                outcome = "nothing lost, nothing twice"
            except Exception as error:
                wrong += 1
                if not isinstance(error, AssertionError):
                    traceback.print_exc()
                outcome = stage.shorter(f"WRONG: {error}")
            print(f"{name}: {outcome} ({time.monotonic() - begin:.0f} s)", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
