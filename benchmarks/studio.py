"""The page Annotate under load: memory of page and server over many images, and a list of 100,000 of them.

    python benchmarks/studio.py [--images 500] [--listed 100000]

Needs `pliant[studio]`, Playwright and Chromium. Images are drawn into a temporary folder. The first part opens one
after another, places a point in each, and prints the memory at a tenth of the way and at its end; what matters is
their ratio. The second part opens a list of empty files, scrolls through all of it, and counts frames that took
more than 50 ms. Linux alone tells the memory of a process in this way.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from pliant.data.formats import write_landmarks

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]

SCROLL = """async (frames) => {
  const list = document.querySelector("#image-list");
  const end = list.scrollHeight - list.clientHeight;
  const took = [];
  let last = performance.now();
  for (let frame = 0; frame <= frames; frame++) {
    list.scrollTop = (end * frame) / frames;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    took.push(now - last);
    last = now;
  }
  return took;
}"""


@contextmanager
def studio(folder: Path) -> Iterator[tuple[str, int, float]]:
    """A studio of a folder: its address, its process, and the seconds until it answered."""
    command = [sys.executable, "-m", "pliant", "studio", str(folder), "--json"]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["address"]
            yield address, process.pid, time.monotonic() - began
        finally:
            process.terminate()


def resident(process: int) -> float:
    """Resident memory of a process, in MB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def draw(folder: Path, count: int) -> None:
    """Photographs of noise, 1200 x 900; the first has landmarks, so that the others know theirs."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    for number in range(min(count, 10)):
        small = Image.fromarray(generator.integers(0, 255, (90, 120, 3), dtype=np.uint8))
        small.resize((1200, 900)).save(folder / f"image-{number:04d}.jpg", quality=90)
    for number in range(10, count):
        shutil.copy(folder / f"image-{number % 10:04d}.jpg", folder / f"image-{number:04d}.jpg")
    write_landmarks(folder / "image-0000.pts", generator.uniform(100, 800, (20, 2)))


def shown(page: Page, index: int) -> None:
    page.wait_for_selector(f"#stage[data-image='{index}']")


def memory_of_page(browser: Browser, page: Page) -> tuple[float, float]:
    """What the scripts of a page hold, and its whole process, which has the pictures too; in MB."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    session.detach()
    system = browser.new_browser_cdp_session()
    processes: list[dict[str, Any]] = system.send("SystemInfo.getProcessInfo")["processInfo"]
    system.detach()
    renderers = [resident(one["id"]) for one in processes if one["type"] == "renderer"]
    return metrics["JSHeapUsedSize"] / 2**20, max(renderers)


def over_images(browser: Browser, folder: Path, count: int) -> None:
    draw(folder, count)
    with studio(folder) as (address, process, _):
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"{address}annotate?image=0")
        print(f"{'images':>8} {'scripts MB':>11} {'page MB':>8} {'server MB':>10}")
        rows = []
        for index in range(count):
            shown(page, index)
            if index:
                page.mouse.click(500 + index % 50, 400)
            if index + 1 in (count // 10, count):
                heap, whole = memory_of_page(browser, page)
                rows.append((heap, whole, resident(process)))
                print(f"{index + 1:8d} {heap:11.1f} {whole:8.0f} {rows[-1][2]:10.0f}")
            page.keyboard.press("PageDown")
        ratios = [after / before for before, after in zip(*rows, strict=True)]
        print(f"{'ratio':>8} {ratios[0]:11.2f} {ratios[1]:8.2f} {ratios[2]:10.2f}")
        page.close()


def long_list(browser: Browser, folder: Path, count: int) -> None:
    folder.mkdir()
    for number in range(count):
        (folder / f"image-{number:06d}.jpg").touch()
    with studio(folder) as (address, process, seconds):
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        began = time.monotonic()
        page.goto(f"{address}annotate?image=0")
        page.wait_for_selector("#image-list .list-row .dot:not(.unknown)")
        opened = time.monotonic() - began
        took = np.array(page.evaluate(SCROLL, 600))
        page.wait_for_selector(f"#image-list:has-text('{count - 1:06d}')")
        print(f"\n{count:,} files: the studio starts in {seconds:.1f} s, its list opens in {opened:.2f} s")
        slow = int((took > 50).sum())
        print(f"scrolling through all: {len(took)} frames, {slow} over 50 ms, longest {took.max():.0f} ms")
        print(f"server: {resident(process):.0f} MB")
        page.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--listed", type=int, default=100_000)
    chosen = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        if chosen.images:
            over_images(browser, Path(folder) / "images", chosen.images)
        if chosen.listed:
            long_list(browser, Path(folder) / "listed", chosen.listed)
        browser.close()


if __name__ == "__main__":
    main()
