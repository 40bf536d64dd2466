"""What a machine can check of the Scientific Python SPECs 0, 1, 7 and 8."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from outcome import Outcome, found

RELEASES = {
    "python": {"3.11": "2022-10-24", "3.12": "2023-10-02", "3.13": "2024-10-07", "3.14": "2025-10-07"},
    "numpy": {
        "1.26": "2023-09-16",
        "2.0": "2024-06-16",
        "2.1": "2024-08-18",
        "2.2": "2024-12-08",
        "2.3": "2025-06-07",
        "2.4": "2025-12-20",
    },
    "scipy": {
        "1.11": "2023-06-25",
        "1.12": "2024-01-20",
        "1.13": "2024-04-02",
        "1.14": "2024-06-24",
        "1.15": "2025-01-03",
        "1.16": "2025-06-22",
        "1.17": "2026-01-10",
    },
    "matplotlib": {"3.8": "2023-09-15", "3.9": "2024-05-15", "3.10": "2024-12-14", "3.11": "2026-06-12"},
}
"""Days of first releases, of Python and of those core packages of SPEC 0 that pliant needs. Add new ones here."""

MONTHS = {"python": 36}
"""How long SPEC 0 supports a release; core packages have 24 months."""

HEAVY = "numpy", "scipy", "numba", "cv2", "PIL", "matplotlib", "pyarrow", "fsspec", "typer", "rich", "torch"
"""What `import pliant` must leave alone."""

EXPLICIT = {"default_rng", "Generator", "SeedSequence", "PCG64", "BitGenerator"}
"""Names of numpy.random that have no global state."""


def spec_outcomes(root: Path, project: dict[str, Any], today: date) -> list[Outcome]:
    """All checks of the SPECs."""
    return [*spec0(project, today), *spec1(root), *spec7(root / "src"), spec8(root)]


def oldest_supported(package: str, today: date) -> str:
    """The oldest release that is still in its window; the newest one if none is."""
    ordered = sorted(RELEASES[package], key=Version)
    months = today.year * 12 + today.month - 1 - MONTHS.get(package, 24)
    edge = f"{months // 12:04d}-{months % 12 + 1:02d}-{today.day:02d}"
    return next((version for version in ordered if RELEASES[package][version] >= edge), ordered[-1])


def spec0(project: dict[str, Any], today: date) -> Iterator[Outcome]:
    """Declared minimum versions against the windows of SPEC 0."""
    python = SpecifierSet(project["requires-python"])
    yield found(
        "SPEC 0",
        "SPEC0-python",
        "The oldest Python is the oldest in its window",
        _window(python, "python", today),
    )
    refused = [version for version in RELEASES["python"] if not python.contains(f"{version}.0")]
    window = [v for v in refused if Version(v) >= Version(oldest_supported("python", today))]
    problem = f"requires-python refuses {', '.join(window)}" if window else ""
    yield found("SPEC 0", "SPEC0-newest-python", "Every Python in the window is accepted", problem)
    declared = {one.name: one.specifier for one in map(Requirement, project["dependencies"])}
    for package in sorted(declared.keys() & RELEASES.keys()):
        title = f"The oldest {package} is the oldest in its window"
        yield found("SPEC 0", f"SPEC0-{package}", title, _window(declared[package], package, today))


def _window(specifier: SpecifierSet, package: str, today: date) -> str:
    """What is wrong with a declared minimum: past its window, or a release in the window is refused."""
    wanted = oldest_supported(package, today)
    lowest = [one.version for one in specifier if one.operator in (">=", "~=", "==")]
    if not lowest:
        return f"{package} has no minimum version; the window begins with {wanted}"
    declared = max(map(Version, lowest))
    if declared.release[:2] == Version(wanted).release[:2]:
        return ""
    if declared < Version(wanted):
        return f"{package} {declared} is past its window, which begins with {wanted}"
    return f"{package} {wanted} is in the window, and the minimum is {declared}"


def spec1(root: Path) -> Iterator[Outcome]:
    """Whether `import pliant` loads nothing heavy, and yet knows all its names."""
    code = f"""
import sys
import pliant
print(*(name for name in {HEAVY} if name in sys.modules))
print(*sorted(set(pliant.__all__) - set(dir(pliant))))
"""
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    heavy, missing = done.stdout.split("\n")[:2]
    problem = f"it imports {heavy}" if heavy else ""
    yield found("SPEC 1", "SPEC1-import", "`import pliant` loads no heavy package", problem)
    problem = f"`dir(pliant)` lacks {missing}" if missing else ""
    yield found("SPEC 1", "SPEC1-names", "`dir(pliant)` lists every public name before it is loaded", problem)


def spec7(source: Path) -> Iterator[Outcome]:
    """Whether random numbers come from generators with a given seed, never from global state."""
    unseeded, shared, misnamed = [], [], []
    for path in sorted(source.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        where = path.relative_to(source)
        unseeded += [f"{where}:{line}" for line in _unseeded(tree)]
        shared += [f"{where}:{line} {what}" for line, what in _shared(tree)]
        misnamed += [
            f"{where}:{node.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef)
            for argument in (*node.args.args, *node.args.kwonlyargs)
            if argument.arg in ("random_state", "random_seed", "generator")
        ]
    yield found("SPEC 7", "SPEC7-global-state", "No random number from global state", ", ".join(shared))
    yield found("SPEC 7", "SPEC7-seeded", "Every generator has a seed", ", ".join(unseeded))
    yield found("SPEC 7", "SPEC7-names", "Seeds are `seed`, generators `rng`", ", ".join(misnamed))


def _unseeded(tree: ast.AST) -> list[int]:
    """Lines that make a generator from nothing."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [
        call.lineno
        for call in calls
        if ast.unparse(call.func).endswith("default_rng") and not call.args and not call.keywords
    ]


def _shared(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines that read or set a generator which others share; PyTorch's may be set where it is put back."""
    kept = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.With) and any("fork_rng" in ast.unparse(item) for item in node.items)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(alias.name == "random" for alias in node.names):
            yield node.lineno, "import random"
        elif isinstance(node, ast.ImportFrom) and node.module == "random":
            yield node.lineno, "from random"
        elif isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            global_numpy = re.match(r"(np|numpy)\.random\.\w+$", name) and node.attr not in EXPLICIT
            if global_numpy or (node.attr in ("manual_seed", "setRNGSeed") and id(node) not in kept):
                yield node.lineno, name


def spec8(root: Path) -> Outcome:
    """Whether two builds of the same source are the same files, so that anyone can check a release."""
    title = "Two builds of the same source are the same, byte for byte"
    with tempfile.TemporaryDirectory() as folder:
        digests = []
        for name in ("first", "second"):
            command = [sys.executable, "-m", "hatchling", "build", "-d", f"{folder}/{name}"]
            done = subprocess.run(command, cwd=root, capture_output=True, text=True)
            if done.returncode:
                return found("SPEC 8", "SPEC8-build", title, f"the build fails: {done.stderr.strip()[-300:]}")
            files = sorted(Path(folder, name).iterdir())
            digests.append({file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files})
    differ = [name for name in digests[0] if digests[0][name] != digests[1].get(name)]
    return found("SPEC 8", "SPEC8-build", title, f"{', '.join(differ)} differ" if differ else "")
