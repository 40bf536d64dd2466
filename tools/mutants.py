"""Changes the algebra, kernels, formats and statistics one operator at a time, and runs the tests: `make mutants`.

python tools/mutants.py [--only GLOB ...] [--share 0.1 | --most 200] [--seed 0] [--jobs 2] [--seconds 30]
                        [--fresh] [--control] [--report FILE]

A mutant is caught if a test fails, if it never ends, or if it breaks the process. What is found is kept in
.mutants/, so that a run which was stopped goes on. A mutant that was caught stays caught until its file changes;
the survivors are tried again, since there may be new tests. Those that no test can catch stand in
tools/mutants_equivalent.toml, each with its reason.

`--share` and `--most` take a sample, the same for the same seed. `--control` changes nothing in the code: then
every "mutant" must survive, or a test fails by itself. `--report` writes the figures and the list of survivors,
as they stand in docs/reliability.md. The exit code is 1 if fewer than 95 % are caught, or if a reason in
that file has no mutant.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from mutant_bench import compiled_functions
from mutations import Mutation, mutations

ROOT = Path(__file__).parents[1]
SCRATCH = ROOT / ".mutants"
ENOUGH = 0.95

ROOMS = {
    "algebra": (
        *(
            f"fitting/{name}.py"
            for name in ("cost", "composition", "method", "quadratic", "solve", "landmarks")
        ),
        "motion/*.py",
        "shape/*.py",
        "pca.py",
    ),
    "kernels": ("kernels/*.py",),
    "formats": ("data/formats/*.py",),
    "statistics": ("metrics.py", "experiments/statistics.py", "trust/*.py"),
}
WITH_PYTORCH = "src/pliant/kernels/torch*.py"
"""Left out: PyTorch is no part of .venv, and `make test-gpu` compares these kernels with the others."""

ON_DEVICE = "_on_device"
"""How functions of other files end that need PyTorch: left out too."""

VECTORS = ("src/pliant/kernels/basis_pass.py", "_triangle_sums")
"""Writes vector instructions: a mutant of it must be compiled, which takes seconds. All other loops that are
compiled are run as plain Python, with NUMBA_DISABLE_JIT."""

FITS = "fitter fitting framework loop missing_images numbers robust"

TESTS = {
    "algebra": (
        "agreement algebra conditional facing::TestShapes kernels landmark_term linear_expert missing "
        "morphometrics motion patches pca shape symmetry training_in_parts::TestSketches "
        "training_in_parts::TestShapes trust_in_experts tuning_experts::TestHeldOutNoise "
    )
    + FITS,
    "kernels": "appearance basis_pass cascaded_regression kernels mesh_loops patches " + FITS,
    "formats": (
        "convert data datasets formats formats_annotation_tools formats_binary formats_tables "
        "fuzz/test_fuzz morphometrics rewriting scales"
    ),
    "statistics": (
        "confidence experiments_report::TestStatistics experts filters metrics trust_in_experts "
        "tuning_experts::TestScatter "
    )
    + FITS,
}
"""For each room, the test files that should notice. The others start servers and programs, or run whole fits for
minutes."""

LOOP_TESTS = "basis_pass mesh_loops robust::TestWeights"
"""Those that run compiled loops by themselves, and are fast enough when these are plain Python."""

FIXTURES = {
    "algebra": ("model",),
    "kernels": ("model",),
    "formats": ("face_folders",),
    "statistics": ("model", "calibrated"),
}
"""What is made before any mutant is tried."""


def sources() -> dict[str, str]:
    """The files that are changed, with the room of each."""
    return {
        str(path.relative_to(ROOT)): room
        for room, patterns in ROOMS.items()
        for pattern in patterns
        for path in sorted((ROOT / "src/pliant").glob(pattern))
        if not fnmatch(str(path.relative_to(ROOT)), WITH_PYTORCH)
    }


def bench_of(path: str, mutation: Mutation, compiled: Iterable[str]) -> str:
    """How a mutant is tried."""
    function = mutation.function.split(".")[0]
    if (path, function) == VECTORS:
        return "compiled"
    if path == VECTORS[0] and not function:
        # Sums that passes are compiled with: only where nothing is compiled can they be others.
        return "interpreted"
    return "interpreted" if function in (*compiled, "_interpreted_sums") else "plain"


def test_files(names: str) -> list[str]:
    found = []
    for name in sorted(set(names.split())):
        file, separator, part = name.partition("::")
        found.append(f"tests/{file if '/' in file else f'test_{file}'}.py{separator}{part}")
    return found


def sampled(
    everything: list[tuple[str, Mutation]], options: argparse.Namespace
) -> list[tuple[str, Mutation]]:
    """The same sample for the same seed, whatever else has been added or removed."""

    def place(one: tuple[str, Mutation]) -> str:
        return hashlib.sha256(f"{options.seed} {one[0]} {one[1].name}".encode()).hexdigest()

    if options.most is None and options.share >= 1:
        return everything
    chosen = sorted(everything, key=place)
    return chosen[: options.most or round(options.share * len(everything))]


def run_bench(kind: str, mutants: list[tuple[str, Mutation]], options: argparse.Namespace, out: Path) -> None:
    files = sources()
    rooms = {files[path] for path, _ in mutants}
    known = known_results(out, digests(files)).values()
    task = {
        "sources": list(files),
        "digests": digests(files),
        "mutants": [(path, mutation.name) for path, mutation in mutants],
        "tests": test_files(" ".join(TESTS[room] for room in rooms) if kind == "plain" else LOOP_TESTS),
        "fixtures": sorted({name for room in rooms for name in FIXTURES[room]}) if kind == "plain" else [],
        "survived": {f"{one['path']} {one['name']}": one.get("tried") for one in known},
        "caught": [(one["path"], one["name"].split(" | ")[0], one["test"]) for one in known if one["test"]],
        "jobs": options.jobs,
        "seconds": options.seconds,
        "control": options.control,
        "scratch": str(SCRATCH),
        "results": str(out),
    }
    file = SCRATCH / f"task-{kind}.json"
    file.write_text(json.dumps(task))
    # Threads do not survive a fork, and two children have two cores.
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {**os.environ, **one, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    if kind == "interpreted":
        environment["NUMBA_DISABLE_JIT"] = "1"
    command = [sys.executable, str(ROOT / "tools/mutant_bench.py"), kind, str(file)]
    done = subprocess.run(command, cwd=ROOT, env=environment)
    if done.returncode not in (0, 5):
        raise SystemExit(f"the bench '{kind}' ended with {done.returncode}: what it printed above says why.")


def digests(paths: Iterable[str]) -> dict[str, str]:
    return {path: hashlib.sha256((ROOT / path).read_bytes()).hexdigest() for path in paths}


def known_results(file: Path, current: dict[str, str]) -> dict[tuple[str, str], dict[str, Any]]:
    """The last result of each mutant of the files as they are now."""
    if not file.exists():
        return {}
    lines = map(json.loads, file.read_text().splitlines())
    return {(one["path"], one["name"]): one for one in lines if current.get(one["path"]) == one["source"]}


def equivalents() -> dict[tuple[str, str], str]:
    """The mutants that no test can catch, with the reason of each."""
    file = ROOT / "tools/mutants_equivalent.toml"
    table = tomllib.loads(file.read_text()) if file.exists() else {}
    return {
        (path, name): reason
        for path, groups in table.items()
        for reason, names in groups.items()
        for name in names
    }


def main() -> int:
    options = parsed()
    SCRATCH.mkdir(exist_ok=True)
    rooms, same = sources(), equivalents()
    everything = [
        (path, mutation)
        for path in rooms
        if any(glob == rooms[path] or fnmatch(path, f"*{glob}*") for glob in options.only or ["*"])
        for mutation in mutations((ROOT / path).read_text())
        if not mutation.function.endswith(ON_DEVICE)
    ]
    gone = set(same) - {(path, m.name) for path, m in everything} if not options.only else set()
    chosen = sampled(everything, options)
    out = SCRATCH / ("control.jsonl" if options.control else "results.jsonl")
    if options.fresh or options.control:
        out.unlink(missing_ok=True)
    known = known_results(out, digests(rooms))
    compiled = {path: compiled_functions(path) for path in rooms}
    benches: dict[str, list[tuple[str, Mutation]]] = {"plain": [], "interpreted": [], "compiled": []}
    for path, mutation in chosen:
        result = known.get((path, mutation.name), {}).get("result", "survived")
        if result in ("survived", "not run by a test") and (path, mutation.name) not in same:
            benches[bench_of(path, mutation, compiled[path])].append((path, mutation))
    for kind, mutants in benches.items():
        if mutants and kind in options.bench:
            print(f"{kind}: {len(mutants)} mutants of {len(chosen)} are still to be tried", flush=True)
            run_bench(kind, mutants, options, out)
    return reported(chosen, known_results(out, digests(rooms)), same, gone, options)


def reported(
    chosen: list[tuple[str, Mutation]],
    known: dict[tuple[str, str], dict[str, Any]],
    same: dict[tuple[str, str], str],
    gone: set[tuple[str, str]],
    options: argparse.Namespace,
) -> int:
    rooms, counts, survivors = sources(), Counter[tuple[str, str]](), []
    for path, mutation in chosen:
        one = known.get((path, mutation.name))
        result = "equivalent" if (path, mutation.name) in same else one["result"] if one else "not tried"
        counts[rooms[path], result] += 1
        if result in ("survived", "not run by a test"):
            survivors.append((path, mutation, result))
    lines = [
        "| | mutants | equivalent | caught | survive | share caught | 95 % interval |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    shares = []
    for room in [*dict.fromkeys(rooms.values()), "all"]:
        got = Counter[str]()
        for (own, result), count in counts.items():
            if room in (own, "all"):
                got[result] += count
        caught = got["caught"] + got["endless"] + got["crashed"]
        lost = got["survived"] + got["not run by a test"]
        tried = caught + lost + got["equivalent"]
        share = caught / max(caught + lost, 1)
        shares.append(share)
        if tried:
            counted = f"{tried} | {got['equivalent']} | {caught} | {lost} | {100 * share:.1f} %"
            lines.append(f"| {room} | {counted} | {interval(caught, caught + lost)} |")
    print("\n".join(lines))
    untried = sum(count for (_, result), count in counts.items() if result == "not tried")
    if untried:
        print(f"{untried} mutants were not tried.")
    for path, mutation, result in survivors:
        print(f"{path}:{mutation.number}: {mutation.name}" + (f" ({result})" if result != "survived" else ""))
    for path, name in sorted(gone):
        print(f"tools/mutants_equivalent.toml: there is no such mutant in {path}: {name}")
    if options.report:
        Path(options.report).write_text(report_text(lines, survivors))
    return (
        int(bool(gone) or shares[-1] < ENOUGH) if not options.control else int(len(survivors) < len(chosen))
    )


def interval(caught: int, tried: int) -> str:
    """Where the share of all mutants lies, if these were drawn at random (Clopper and Pearson)."""
    from scipy.stats import binomtest

    found = binomtest(caught, max(tried, 1)).proportion_ci(method="exact")
    return f"{100 * found.low:.0f} to {100 * found.high:.0f} %"


def report_text(table: list[str], survivors: list[tuple[str, Mutation, str]]) -> str:
    lines = [*table, ""]
    for path in dict.fromkeys(path for path, _, _ in survivors):
        lines += [f"`{path.removeprefix('src/pliant/')}`", ""]
        for own, mutation, _ in survivors:
            if own == path:
                where = mutation.function or "module"
                lines.append(f"- `{where}`: ``{mutation.line}``, {mutation.change}")
        lines.append("")
    return "\n".join(lines)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="GLOB", help="rooms, or files whose path contains this")
    parser.add_argument("--share", type=float, default=1.0, help="share of the mutants to try")
    parser.add_argument("--most", type=int, help="number of mutants to try")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--seconds", type=float, default=30, help="of tests, at most, for a mutant")
    parser.add_argument("--bench", nargs="+", default=["plain", "interpreted", "compiled"])
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs have found")
    parser.add_argument("--control", action="store_true", help="run the tests without changing anything")
    parser.add_argument("--report", metavar="FILE", help="write the figures and the survivors as Markdown")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
