"""All benchmarks, one after the other, and their tables in docs/results/benchmarks.md.

If the real faces are there, a model of them is trained once, for the benchmarks that take one. If a benchmark
fails, the page says so, and the others go on.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from datetime import date
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
_RESULTS = _HERE.parent / "docs" / "results" / "benchmarks.md"
_FACES = [_HERE.parents[1] / "shared" / "data" / name / "trainset" for name in ("lfpw", "helen")]
_BENCHMARKS = ("train", "features", "kernel", "fit", "peers")
_TAKE_MODEL = ("kernel", "fit")

_CONTEXT = re.compile(r"data: |model: |A: |reading A once: |fitting \d+ images: |the error of the starts ")
"""What a benchmark prints besides its rows that a reader wants to know."""
_WARNING = re.compile(r".*( was not run| could not |: not timed|left out: |may use one core only)")
"""What it prints when it could not do everything."""

_TITLES = {
    "ms": "milliseconds",
    "ratio_to_blur": "× one blur",
    "ratio_to_read": "× reading A once",
    "peak_gb": "GB at the peak",
    "sampling_percent": "% of the pixels",
    "ms_single": "ms, one image alone",
    "ms_folder": "ms, a folder",
    "ms_two_threads": "ms, a folder with 2 threads",
    "speed_up": "speed-up of 2 threads",
    "fits_per_second": "fits per second on one core",
    "ms_features": "ms, features alone",
    "ms_without_features": "ms, a folder without features",
    "error": "mean error",
    "error_ratio": "× the error with all pixels and 40 iterations",
    "paper_ms": "ms in the paper",
    "ours_seconds": "seconds, pliant",
    "theirs_seconds": "seconds, peer",
    "ours_gb": "GB at the peak, pliant",
    "theirs_gb": "GB at the peak, peer",
    "ours_basis": "finest A, pliant",
    "theirs_basis": "finest A, peer",
    "memory_share": "× the peer's memory",
    "counterpart": "the peer's algorithm",
    "ours_ms_single": "ms, pliant, one image alone",
    "ours_ms_batch": "ms, pliant, all at once",
    "theirs_ms": "ms, peer",
    "times_faster_single": "times faster, one image alone",
    "times_faster_batch": "times faster, all at once",
    "start_error": "error of the starts",
    "our_error": "mean error, pliant",
    "their_error": "mean error, peer",
    "their_failures": "fits that failed, peer",
}

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = ",".join(_BENCHMARKS)
    parser.add_argument("--only", default=known, help=f"some of {known}; the other sections stay as they are")
    chosen = parser.parse_args().only.split(",")
    if unknown := sorted(set(chosen) - set(_BENCHMARKS)):
        parser.error(f"there is no benchmark '{unknown[0]}'. Known: {known}.")
    sections = _sections()
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        model = _model(scratch) if set(chosen) & set(_TAKE_MODEL) else None
        for name in (name for name in _BENCHMARKS if name in chosen):
            rows, lines = _benchmark(name, model, scratch / f"{name}.json")
            sections[name] = _section(name, rows, lines)
            if rows is None:
                failed.append(name)
            # After each of them: what was measured stays if a later one is interrupted.
            _RESULTS.write_text(_page(sections))
    print(f"\nwrote docs/results/{_RESULTS.name}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def _sections() -> dict[str, str]:
    """The sections that the file already has, by name."""
    text = _RESULTS.read_text() if _RESULTS.exists() else ""
    parts = (part.partition("\n") for part in re.split("^## ", text, flags=re.MULTILINE)[1:])
    return {name: body.strip() for name, _, body in parts}


def _model(scratch: Path) -> Path | None:
    if not all(folder.is_dir() for folder in _FACES):
        return None
    file = scratch / "faces.pliant"
    print("\n## a model of the real faces", flush=True)
    status, _ = _shown([sys.executable, "-m", "pliant", "train", *map(str, _FACES), "--output", str(file)])
    return None if status else file


def _benchmark(name: str, model: Path | None, file: Path) -> tuple[list[Row] | None, list[str]]:
    """The rows, or None if it failed, and the lines that it printed."""
    command = [sys.executable, str(_HERE / f"{name}.py"), "--json", str(file)]
    print(f"\n## {name}", flush=True)
    if name not in _TAKE_MODEL:
        status, lines = _shown(command)
    elif model:
        status, lines = _shown([*command, "--model", str(model)])
        lines.insert(0, "model: trained on all of lfpw/trainset and helen/trainset")
    else:
        status, lines = _shown(command)
        lines.insert(0, "model: its own, because the real faces are not there")
    return (None if status else json.loads(file.read_text())), lines


def _shown(command: list[str]) -> tuple[int, list[str]]:
    """The exit status of a command and its lines. They are printed as they come."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    lines = []
    for line in process.stdout or ():
        print(line, end="", flush=True)
        lines.append(line.strip())
    return process.wait(), lines


def _section(name: str, rows: list[Row] | None, lines: list[str]) -> str:
    purpose = (ast.get_docstring(ast.parse((_HERE / f"{name}.py").read_text())) or "").partition("\n")[0]
    parts = [purpose, f"Measured on {date.today()} with {_commit()}."]
    parts.append(_bullets([line for line in lines if _CONTEXT.match(line)]))
    if rows is None:
        last = next((line for line in reversed(lines) if line), "it said nothing")
        parts.append(f"**It failed:** {_without_folders(last)}")
    else:
        # Some have two kinds of rows, each a table of its own.
        parts += [_table(list(alike)) for _, alike in groupby(rows, key=list)]
    parts.append(_bullets([line for line in lines if _WARNING.match(line)]))
    return "\n\n".join(filter(None, parts))


def _table(rows: list[Row]) -> str:
    titles = [_TITLES.get(key, key.replace("_", " ")) for key in rows[0]]
    cells = [titles, ["---"] * len(titles), *([_cell(*item) for item in row.items()] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _cell(key: str, value: Any) -> str:
    if value is None:
        return ""
    if key == "algorithm":
        return f"`{value}`"
    if isinstance(value, list):
        return f"{value[-1][0]:,} × {value[-1][1]}"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")
    return str(value)


def _bullets(lines: list[str]) -> str:
    return "\n".join(f"- {_without_folders(line)}" for line in lines)


def _without_folders(text: str) -> str:
    """File names stay, folders of this machine go."""
    return re.sub(r"(?<![\w.])/(?:[^\s/'\"]+/)+", "", text)


def _page(sections: dict[str, str]) -> str:
    head = f"# Benchmarks\n\nWritten by `make bench` on {date.today()} with {_commit()}, on this machine:\n\n"
    parts = [
        head + _machine(),
        *(f"## {name}\n\n{sections[name]}" for name in _BENCHMARKS if name in sections),
    ]
    return "\n\n".join(parts) + "\n"


def _commit() -> str:
    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=_HERE, capture_output=True, text=True).stdout.strip()

    commit = git("rev-parse", "--short", "HEAD")
    if not commit:
        return "an unknown commit"
    changed = git("status", "--porcelain", "--", "..", ":!../docs/results")
    return f"commit {commit}" + (" and uncommitted changes" if changed else "")


def _machine() -> str:
    processor = _first(r"model name\s*: (.*)", "/proc/cpuinfo") or platform.processor()
    memory = _first(r"MemTotal:\s*(\d+)", "/proc/meminfo")
    system = _first(r'PRETTY_NAME="?([^"\n]*)', "/etc/os-release") or platform.system()
    libraries = {"NumPy": "numpy", "Numba": "numba", "OpenCV": "opencv-python-headless"}
    versions = (f"{title} {version(package)}" for title, package in libraries.items())
    lines = (
        f"processor: {processor} ({platform.machine()}), {os.cpu_count()} cores",
        f"caches: {_caches()}",
        f"memory: {int(memory) * 1024 / 1e9:.0f} GB" if memory else "memory: unknown",
        f"system: {system}, Python {platform.python_version()}, {', '.join(versions)}",
    )
    return "\n".join(f"- {line}" for line in lines)


def _caches() -> str:
    """Those that the first core sees."""
    found = sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"))
    read = [[(cache / name).read_text().strip() for name in ("level", "type", "size")] for cache in found]
    return ", ".join(f"L{level} {kind.lower()} {size}" for level, kind, size in read) or "unknown"


def _first(pattern: str, file: str) -> str:
    """The first match of the pattern's group in a file, or nothing if there is no such file."""
    text = Path(file).read_text() if Path(file).exists() else ""
    match = re.search(pattern, text)
    return match[1].strip() if match else ""


if __name__ == "__main__":
    main()
