"""Faults of `cluster_faults.py` that are done to files: images, parts, disks, shards and stores."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil

from cluster_processes import (
    IMAGES,
    Command,
    Said,
    Shown,
    Stage,
    bits,
    check_table,
    cluster,
    expect,
    kept,
    markers_of,
    wait_for_parts,
    wait_until,
)
from pliant.bulk.parts import FOLDER
from pliant.table import TABLE, rows_of


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
        said = expect(stage.fit(output, "--shard", "1/1", "--jobs", "1").end(), 0, "all images are done")
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
    said = expect(shard(4).end(), 0, "all done before")
    assert kept(output) == before, "a shard that was done was fitted again"
    yield "shard 4/4 first, and again", said
    both = [shard(1), shard(2)]
    for one in both:
        expect(one.end(), 0)
    before = {**before, **kept(output)}
    merge = stage.command("merge", str(output))
    yield "1/4 and 2/4 at the same time, 3/4 missing", expect(merge.end(), 1, "those of the shard 3/4")
    other = shard(3, "--sampling", "0.5").end()
    yield "3/4 with another setting", expect(other, 1, "other settings", "sampling was 1.0 and is now 0.5")
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
        expect(again, 1, "its table is already there")
    expect(merged, 0)
    check_table(stage, output, before)
    yield "merge again", again


def killed_when(command: Command, is_reached: Callable[[], bool], what: str) -> None:
    wait_until(lambda: is_reached() or command.process.poll() is not None, what, pause=0)
    command.kill()
    assert command.process.returncode == -signal.SIGKILL, f"merge ended before it was killed {what}"


def store(stage: Stage) -> Shown:
    import fsspec
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
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
