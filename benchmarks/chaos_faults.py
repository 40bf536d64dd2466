"""The faults of `chaos.py`: each is done to a command, which must leave the old or the new version, and go on."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos_commands import Work, check_new, check_whole, content
from cluster_processes import Command, Said, Stage, expect

FAKETIME = next(Path("/usr/lib").glob("**/faketime/libfaketime.so.1"), None)


class NotShown(Exception):
    """Why a fault cannot be provoked here."""


Fault = Callable[[Stage, Work, random.Random], str]
"""Does something to a command, and says what; an AssertionError says what is wrong then."""


def sentence(said: Said, *codes: int) -> str:
    """The last line that a command said, when it ended with one of these exit codes and no traceback."""
    assert said.code in codes, f"exit code {said.code}: {said.text[-400:]}"
    assert "Traceback" not in said.text, said.text[-400:]
    last = said.text.splitlines()[-1] if said.text else ""
    assert said.code != 1 or last, "it failed without a word"
    return last


def with_earlier(stage: Stage, work: Work) -> Path:
    output = stage.name(work.name)
    shutil.copytree(work.earlier, output)
    return output


def killed(stage: Stage, work: Work, chance: random.Random, kills: int = 3) -> str:
    """SIGKILL at random moments, and while files change; every other time over the results of an earlier run."""
    hits = 0
    for number in range(kills):
        older = number % 2 == 1
        output = with_earlier(stage, work) if older else stage.name(work.name)
        output.mkdir(exist_ok=True)
        more = work.replacing if older else ()
        command = work.start(stage, output, *more)
        if number % 4 < 2:
            before = listing(output)
            while command.process.poll() is None and listing(output) == before:
                time.sleep(0.002)
            time.sleep(chance.choice((0.0, 0.002, 0.02, 0.2, 1.0)))
        else:
            time.sleep(chance.uniform(0, work.seconds))
        command.kill()
        hits += command.process.returncode == -9
        check_whole(work, output)
        go_on(stage, work, output, more)
        check_new(work, output, kept=older)
    return f"{hits} times killed by SIGKILL"


def listing(folder: Path) -> list[tuple[str, int]]:
    found = []
    for path in folder.rglob("*"):
        try:
            found.append((str(path), path.lstat().st_mtime_ns))
        except OSError:  # It has just gone.
            continue
    return sorted(found)


def go_on(stage: Stage, work: Work, output: Path, more: tuple[str, ...] = ()) -> None:
    """Give the command again, as its users are told to."""
    again = dict.fromkeys((*more, *work.again))
    expect(work.start(stage, output, *again).end(), 0)


@contextmanager
def small_disk(stage: Stage, size: str) -> Iterator[Path]:
    disk = stage.name("disk")
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        raise NotShown("to mount a small disk, be root")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def full_disk(stage: Stage, work: Work, chance: random.Random) -> str:
    """A disk with room for the earlier results and a part of the new ones; later there is more."""
    told = ""
    needed = sum(path.stat().st_size for path in work.earlier.rglob("*") if path.is_file())
    with small_disk(stage, "64m") as disk:
        output = disk / "out"
        shutil.copytree(work.earlier, output)
        more = work.replacing
        for share in (0.0, 0.3, 0.7):
            fill_up(disk, int(share * needed))
            said = work.start(stage, output, *more).end()
            if said.code == 0:
                break
            told = sentence(said, 1)
            assert "No space left" in said.text or "may be full" in said.text, said.text[-300:]
            check_whole(work, output)
            (disk / "filler").unlink()
            # A run that can go on is gone on with, as the others are given again.
            more = tuple(dict.fromkeys((*work.replacing, *work.again)))
        (disk / "filler").unlink(missing_ok=True)
        assert told, "the disk was large enough"
        go_on(stage, work, output, work.replacing)
        check_new(work, output, kept=True)
    return f"a full disk; said: {told}"


def fill_up(disk: Path, left: int) -> None:
    """Leave so many bytes free, or fewer."""
    status = os.statvfs(disk)
    with open(disk / "filler", "ab") as file:
        file.write(bytes(max(0, status.f_bavail * status.f_frsize - left)))


def read_only(stage: Stage, work: Work, chance: random.Random) -> str:
    with small_disk(stage, "64m") as disk:
        output = disk / "out"
        shutil.copytree(work.earlier, output)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        told = sentence(work.start(stage, output, *work.replacing).end(), 1)
        assert "Read-only file system" in told or "cannot be written" in told, told
        assert content(output) == work.old, "the earlier results have changed"
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        work.finish(stage, output, *work.replacing)
        check_new(work, output, kept=True)
    return f"a disk that was mounted read-only; said: {told}"


def unreadable(stage: Stage, work: Work, chance: random.Random) -> str:
    """A file that the process may not read, as an owner without the privileges of root."""
    output = with_earlier(stage, work)
    mode = work.reads.stat().st_mode
    work.reads.chmod(0)
    try:
        if os.geteuid() == 0 and shutil.which("setpriv") is None:
            raise NotShown("to be root without its privileges, install setpriv")
        said = unprivileged(stage, work, output).end()
        told = sentence(said, 1, 3)
        if said.code == 1:
            assert work.reads.name in said.text, f"the file is not named: {told}"
            assert content(output) == work.old, "the earlier results have changed"
        else:
            assert work.name in ("fit", "cluster")
            failed = [row for row in content_rows(output) if row["status"] == "failed"]
            assert [Path(row["image"]).name for row in failed] == [work.reads.name]
            told = failed[0]["reason"]
    finally:
        work.reads.chmod(mode)
    if said.code == 1:
        work.finish(stage, output, *work.replacing)
        check_new(work, output, kept=True)
    return f"{work.reads.name} without the right to read it; said: {told}"


def unprivileged(stage: Stage, work: Work, output: Path) -> Command:
    if os.geteuid():
        return work.start(stage, output, *work.replacing)
    program, log = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])", stage.name("command")
    drop = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", sys.executable, "-m", "pliant")
    arguments = (*work.arguments(output), "--quiet", *work.replacing)
    return Command(stage.start("-c", program, *drop, *arguments, log=log), log)


def content_rows(output: Path) -> list[dict[str, object]]:
    from pliant.table import TABLE, rows_of

    return [dict(row) for row in rows_of(output / TABLE)]


def changing(stage: Stage, work: Work, chance: random.Random) -> str:
    """A file that is cut short and written again, over and over, while the command runs."""
    whole, over = work.reads.read_bytes(), threading.Event()

    def change() -> None:
        while not over.is_set():
            work.reads.write_bytes(whole[: chance.randrange(len(whole))])
            time.sleep(chance.uniform(0, 0.01))
            work.reads.write_bytes(whole)
            time.sleep(chance.uniform(0, 0.01))

    output = with_earlier(stage, work)
    thread = threading.Thread(target=change)
    thread.start()
    try:
        said = work.start(stage, output, *work.replacing).end()
    finally:
        over.set()
        thread.join()
        work.reads.write_bytes(whole)
    told = sentence(said, 0, 1, 3)
    content(output)  # All of it is whole.
    if said.code == 1:
        check_whole(work, output)
    elif work.name in ("fit", "cluster"):
        other = [row for row in content_rows(output) if Path(str(row["image"])).name != work.reads.name]
        assert all(row["status"] != "failed" for row in other), "other images have failed"
    output = with_earlier(stage, work)
    work.finish(stage, output, *work.replacing)
    check_new(work, output, kept=True)
    return (
        f"{work.reads.name} cut off and mended all the time; exit code {said.code}, said: {told or 'nothing'}"
    )


@contextmanager
def jumping_clock(stage: Stage, chance: random.Random) -> Iterator[None]:
    """The clock of processes that start now jumps by days, forwards and backwards, every second."""
    if FAKETIME is None:
        raise NotShown("to let the clock jump, install libfaketime")
    file, over = stage.name("clock"), threading.Event()
    file.write_text("+0d\n")

    def jump() -> None:
        while not over.wait(0.5):
            passing = file.with_suffix(".new")
            passing.write_text(f"{chance.choice('+-')}{chance.randrange(1, 400)}d\n")
            passing.replace(file)

    faked = {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        # To read the file at every look at the clock makes all of it very slow.
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        # Otherwise a thread that waits for the interpreter looks at the clock without end.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }
    thread = threading.Thread(target=jump)
    thread.start()
    stage.environment.update(faked)
    try:
        yield
    finally:
        for name in faked:
            del stage.environment[name]
        over.set()
        thread.join()


def clock(stage: Stage, work: Work, chance: random.Random) -> str:
    output = with_earlier(stage, work)
    with jumping_clock(stage, chance):
        work.finish(stage, output, *work.replacing)
    check_new(work, output, kept=True)
    return "the clock jumped by up to 400 days, every second"


def two_processes(stage: Stage, work: Work, chance: random.Random) -> str:
    output = with_earlier(stage, work)
    both = [work.start(stage, output, *work.replacing) for _ in range(2)]
    said = [one.end() for one in both]
    told = [sentence(one, 0, 1) for one in said]
    assert 0 in (one.code for one in said), told
    check_new(work, output, kept=True)
    refused = next((text for one, text in zip(said, told, strict=True) if one.code), "both succeeded")
    return f"the same command twice at the same time; {refused}"


FORK = """
import contextlib, os, sys
from pliant.cli import app
def run(output):
    try:
        app([word.replace("OUTPUT", output) for word in sys.argv[3:]])
    except SystemExit as end:
        return end.code or 0
assert run(sys.argv[1]) == 0
child = os.fork()
if not child:
    os._exit(run(sys.argv[2]))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def fork(stage: Stage, work: Work, chance: random.Random) -> str:
    """A program that has done the work once, with all its threads, forks, and the child does it again."""
    parent, child, log = stage.name(work.name), stage.name(work.name), stage.name("command")
    for output in (parent, child):
        output.mkdir()
    arguments = (*work.arguments(Path("OUTPUT")), "--quiet")
    command = Command(stage.start("-c", FORK, str(parent), str(child), *arguments, log=log), log)
    expect(command.end(), 0)
    for output in (parent, child):
        check_new(work, output)
    return "forked after a run; parent and child have the same results"


LIMITED = """
import resource, sys
import pliant, pliant.cli, pliant.training, pliant.batch, cv2, pyarrow.parquet
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[1]), -1))
sys.argv = ["pliant", *sys.argv[2:]]
pliant.cli.main()
"""


def out_of_memory(stage: Stage, work: Work, chance: random.Random) -> str:
    """Little memory to work with, beside the program itself.

    A library of compiled code that gets none may end the process with words of its own (exit code -6, or 1).
    """
    told: dict[str, int] = {}
    for megabytes in (24, 64):
        output, log = with_earlier(stage, work), stage.name("command")
        arguments = (*work.arguments(output), "--quiet", *work.replacing)
        command = Command(stage.start("-c", LIMITED, str(megabytes * 2**20), *arguments, log=log), log)
        said = command.end()
        check_whole(work, output)
        assert said.code in (0, 1, 3, -6), f"exit code {said.code}: {said.text[-400:]}"
        if said.code in (1, -6):
            assert "memory" in said.text.lower() or "bad_alloc" in said.text, said.text[-400:]
            told[said.text.splitlines()[-1]] = megabytes
        go_on(stage, work, output, work.replacing)
        check_new(work, output, kept=True)
    assert told, "there was always enough memory"
    return f"24 and 64 MB of memory; said with {max(told.values())} MB: {list(told)[-1]}"


FAULTS: dict[str, Fault] = {
    "killed": killed,
    "full disk": full_disk,
    "read-only folder": read_only,
    "unreadable file": unreadable,
    "changing file": changing,
    "clock jumping": clock,
    "two processes": two_processes,
    "fork": fork,
    "out of memory": out_of_memory,
}
