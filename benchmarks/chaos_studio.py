"""The faults of `chaos.py` for the studio: what it has acknowledged is not lost, and landmark files stay whole."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from chaos_faults import LIMITED, NotShown, jumping_clock, small_disk
from cluster_processes import Stage, wait_until
from pliant.data.formats import read_landmarks

IMAGES = 6
LANDMARKS = 68

Known = dict[tuple[int, int], tuple[float, float]]
"""Where landmarks were put, by image and number, as the studio has acknowledged."""


def collection(stage: Stage, folder: Path) -> Path:
    """A few annotated images in a folder of their own."""
    folder.mkdir()
    for file in sorted((stage.folder / "annotated").iterdir())[: 2 * IMAGES]:
        shutil.copy(file, folder)
    return folder


class Server:
    """A studio in a process of its own, and what it answers."""

    def __init__(self, stage: Stage, folder: Path, *before: str) -> None:
        self.log = stage.name("studio")
        arguments = (*(before or ("-m", "pliant")), "studio", str(folder), "--json")
        self.process = stage.start(*arguments, log=self.log)
        wait_until(lambda: "}" in self.text() or self.process.poll() is not None, "the studio to start")
        assert self.process.poll() is None, f"the studio did not start: {self.text()[-400:]}"
        start = self.text().index("{")
        self.address = json.JSONDecoder().raw_decode(self.text()[start:])[0]["address"]

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def ask(self, path: str, body: object = None) -> tuple[int, Any]:
        """The status and the answer; 0 if there is none."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)
        except OSError:
            return 0, {}

    def put(self, image: int, landmark: int, place: tuple[float, float]) -> tuple[int, Any]:
        change = {"id": f"{image} {landmark} {place}", "marks": {str(landmark): [*place, 2]}}
        return self.ask(f"api/images/{image}/changes", {"client": "chaos", "changes": [change]})

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.wait(60)
        assert "Traceback" not in self.text(), self.text()[-4000:]


def changes(server: Server, chance: random.Random, known: Known, most: int) -> None:
    """Move landmarks until the studio is gone, and note what it has acknowledged."""
    for _ in range(most):
        key = chance.randrange(IMAGES), chance.randrange(LANDMARKS)
        place = round(chance.uniform(1, 60), 2), round(chance.uniform(1, 60), 2)
        # Until an answer comes, it may be either.
        before = known.pop(key, None)
        status, answer = server.put(*key, place)
        if status == 200:
            known[key] = place
        elif status == 0:
            return
        else:
            assert len(answer.get("error", "")) > 10, f"{status}: {answer}"
            if before is not None:
                known[key] = before


def check_files(folder: Path) -> None:
    for file in sorted(folder.glob("*.pts")):
        assert read_landmarks(file).shape == (LANDMARKS, 2), f"{file.name} is not whole"


def check_known(stage: Stage, folder: Path, known: Known) -> None:
    """A new studio has all that was acknowledged, and so have the files when it has ended."""
    server = Server(stage, folder)
    for (image, landmark), place in known.items():
        status, answer = server.ask(f"api/images/{image}")
        assert status == 200, answer
        assert np.allclose(answer["points"][landmark], place), f"image {image} has lost landmark {landmark}"
    server.end()
    files = sorted(folder.glob("*.pts"))
    for (image, landmark), place in known.items():
        there = read_landmarks(files[image])[landmark]
        assert np.allclose(there, place, atol=1e-3), f"{files[image].name} has lost landmark {landmark}"


def killed(stage: Stage, chance: random.Random, kills: int = 5) -> str:
    folder, known = collection(stage, stage.name("collection")), Known()
    for _ in range(kills):
        server = Server(stage, folder)
        thread = threading.Thread(target=changes, args=(server, chance, known, 100_000))
        thread.start()
        time.sleep(chance.uniform(0, 3))
        server.end(signal.SIGKILL)
        thread.join()
        check_files(folder)
    check_known(stage, folder, known)
    return f"{kills} times killed while landmarks were moved; all {len(known)} acknowledged places are there"


def full_disk(stage: Stage, chance: random.Random) -> str:
    known = Known()
    with small_disk(stage, "2m") as disk:
        folder = collection(stage, disk / "collection")
        server = Server(stage, folder)
        changes(server, chance, known, 20)
        with open(disk / "filler", "wb") as file:
            try:
                while True:
                    os.write(file.fileno(), bytes(1024))
            except OSError:
                pass
        refused = ""
        for number in range(200):
            place = (10.0 + number / 100, 20.0)
            status, answer = server.put(0, 0, place)
            if status != 200:
                refused = answer["error"]
                break
            known[0, 0] = place
        assert refused, "the disk was never full"
        check_files(folder)
        (disk / "filler").unlink()
        status, answer = server.put(0, 0, place)
        assert status == 200, answer
        known[0, 0] = place
        server.end()
        check_files(folder)
        check_known(stage, folder, known)
    return f"a full disk, and the same change again when there was room; said: {refused}"


def read_only(stage: Stage, chance: random.Random) -> str:
    with small_disk(stage, "2m") as disk:
        folder = collection(stage, disk / "collection")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        server = Server(stage, folder)
        assert server.ask("api/images/0")[0] == 200
        status, answer = server.put(0, 0, (5.0, 5.0))
        assert status >= 400, "a change was acknowledged"
        assert len(answer["error"]) > 10, answer
        server.end()
        check_files(folder)
    return f"a disk that was mounted read-only can be viewed; said to a change: {answer['error']}"


def unreadable(stage: Stage, chance: random.Random) -> str:
    folder, known = collection(stage, stage.name("collection")), Known()
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        raise NotShown("to be root without its privileges, install setpriv")
    file = sorted(folder.glob("*.pts"))[2]
    file.chmod(0)
    drop = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
    program = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"
    server = Server(stage, folder, "-c", program, *drop, sys.executable, "-m", "pliant")
    status, answer = server.ask("api/images/2")
    told = json.dumps(answer)
    assert file.name in told, told[:300]
    assert server.put(1, 0, (5.0, 5.0))[0] == 200
    known[1, 0] = 5.0, 5.0
    server.end()
    file.chmod(0o644)
    check_known(stage, folder, known)
    return (
        f"a landmark file without the right to read it: its image says so (status {status}), others are saved"
    )


def changing(stage: Stage, chance: random.Random) -> str:
    folder, known = collection(stage, stage.name("collection")), Known()
    file, over = sorted(folder.glob("*.pts"))[0], threading.Event()
    whole = file.read_bytes()

    def change() -> None:
        while not over.is_set():
            file.write_bytes(whole[: chance.randrange(len(whole))])
            time.sleep(0.005)
            file.write_bytes(whole)
            time.sleep(0.02)

    server = Server(stage, folder)
    thread = threading.Thread(target=change)
    thread.start()
    try:
        changes(server, chance, known, 150)
    finally:
        over.set()
        thread.join()
    server.put(0, 0, (7.0, 7.0))
    server.end()
    check_files(folder)
    # What somebody else writes to a landmark file counts: of this image, only the last place is ours.
    others = {key: place for key, place in known.items() if key[0]}
    check_known(stage, folder, {**others, (0, 0): (7.0, 7.0)})
    return "a landmark file cut off and mended all the time: no answer without a sentence, other images are saved"


def clock(stage: Stage, chance: random.Random) -> str:
    folder, known = collection(stage, stage.name("collection")), Known()
    with jumping_clock(stage, chance):
        server = Server(stage, folder)
        changes(server, chance, known, 200)
        server.end()
    check_known(stage, folder, known)
    return f"the clock jumped; all {len(known)} acknowledged places are there"


def two_processes(stage: Stage, chance: random.Random) -> str:
    folder, known = collection(stage, stage.name("collection")), Known()
    first, second = Server(stage, folder), Server(stage, folder)
    changes(first, chance, known, 20)
    status, answer = second.put(0, 0, (5.0, 5.0))
    assert status >= 400, "both studios write"
    changes(first, chance, known, 20)
    for server in (first, second):
        server.end()
    check_known(stage, folder, known)
    return f"a second studio can only view; said: {answer['error']}"


def out_of_memory(stage: Stage, chance: random.Random) -> str:
    """A studio with little memory beside the program: it may end, but keeps what it has acknowledged."""
    folder, known = collection(stage, stage.name("collection")), Known()
    lives = 0
    for megabytes in (96, 160, 256):
        try:
            server = Server(stage, folder, "-c", LIMITED, str(megabytes * 2**20))
        except AssertionError:
            continue
        changes(server, chance, known, 50)
        lives += server.process.poll() is None
        server.process.kill()
        server.process.wait()
        check_files(folder)
    check_known(stage, folder, known)
    return f"96 to 256 MB of memory: {lives} of 3 studios went on, all {len(known)} acknowledged places are there"


STUDIO: dict[str, Callable[[Stage, random.Random], str]] = {
    "killed": killed,
    "full disk": full_disk,
    "read-only folder": read_only,
    "unreadable file": unreadable,
    "changing file": changing,
    "clock jumping": clock,
    "two processes": two_processes,
    "out of memory": out_of_memory,
}
"""There is no fork: the server starts no process by forking, and a child would not keep its lock (`locking.py`)."""
