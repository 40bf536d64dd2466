"""Studios in processes of their own, and small collections for them that are drawn here."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from pliant.data.formats import write_landmarks

SIZE = (320, 240)
KITE = np.array([(0.0, -80.0), (60.0, -10.0), (0.0, 80.0), (-60.0, -10.0), (0.0, 0.0)])
"""Landmarks of the object in the pictures, about its middle."""


def kite(number: int) -> np.ndarray:
    """Where the landmarks of a picture are."""
    generator = np.random.default_rng(number)
    angle, size = generator.uniform(-0.3, 0.3), generator.uniform(0.8, 1.1)
    turn = size * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return KITE @ turn.T + np.array(SIZE) / 2 + generator.uniform(-15, 15, 2)


def draw_collection(folder: Path, images: int = 6, annotated: int = 2) -> Path:
    """A folder of pictures of kites, of which the first few have landmark files beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(images):
        picture = Image.new("RGB", SIZE, (214, 219, 210))
        draw, points = ImageDraw.Draw(picture), kite(number)
        draw.polygon([tuple(point) for point in points[:4]], fill=(150, 110, 70), outline=(60, 40, 20))
        draw.line([tuple(points[0]), tuple(points[2])], fill=(60, 40, 20), width=2)
        draw.line([tuple(points[1]), tuple(points[4]), tuple(points[3])], fill=(60, 40, 20), width=2)
        picture.save(folder / f"kite_{number}.png")
        if number < annotated:
            write_landmarks(folder / f"kite_{number}.pts", points)
    return folder


class Studio:
    """A server in a process of its own; it can be killed, and started again at the same address."""

    def __init__(self, source: Path, log: Path, *options: str) -> None:
        self.source, self.log, self.options = source, log, options
        self.port, self.address = 0, ""
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Studio:
        """Start it, at the port that it had before or else at one that is free, and wait until it answers."""
        for _ in range(3):
            if self._starts(self.port or _free_port()):
                return self
        raise AssertionError(f"the studio did not start:\n{self.log.read_text()}")

    def _starts(self, port: int) -> bool:
        command = [sys.executable, "-m", "pliant", "studio", str(self.source), "--port", str(port)]
        threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "NUMBA")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *self.options], stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **threads}
            )
        address = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"{address}/api/project", timeout=5):
                    self.port, self.address = port, address
                    return True
            except OSError:
                time.sleep(0.05)
        self.end(signal.SIGKILL)
        return False

    def kill(self) -> None:
        """End it as a crash would: kill -9."""
        self.end(signal.SIGKILL)

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it, if it runs."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(timeout=20)
            self.process = None


def _free_port() -> int:
    """A port that is free now; somebody else may take it before it is used."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
