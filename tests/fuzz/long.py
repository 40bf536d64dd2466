"""The long run: every reader for a number of executions, guided by the branches that inputs reach (atheris).

    python tests/fuzz/long.py --runs 20000              # each target so often: `make fuzz`
    python tests/fuzz/long.py --seconds 600 images-     # targets whose names begin so, each so long
    python tests/fuzz/long.py --bounds                  # models of the corpus and mutants with NUMBA_BOUNDSCHECK

A finding is kept under `.fuzz/findings/TARGET`, one for each place that raised it, and the run goes on. Inputs that
reach something new are kept under `.fuzz/corpus/TARGET`, where the next run begins.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from random import Random

ROOT = Path(__file__).parents[2]
WORK = ROOT / ".fuzz"
MUTANTS = 300
"""Models that are tried with bounds checks besides those of the corpus."""

SECONDS, MEGABYTES = 20, 3000
"""What one input may take, on a machine that is busy; the libraries alone take a few hundred megabytes."""

PIXELS = 1_000_000
"""The limit of an image here. With the usual one, a few bytes that promise 178 million pixels take seconds."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="targets, or beginnings of their names; all by default")
    parser.add_argument("--runs", type=int, default=0, help="executions of each target")
    parser.add_argument("--seconds", type=int, default=0, help="seconds for each target")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--one", action="store_true", help="run one target in this process; names it in full")
    parser.add_argument("--bounds", action="store_true", help="fit all models with bounds checks instead")
    parser.add_argument("--most", type=int, default=0, help="with --bounds: found models, 0 for all")
    given = parser.parse_args()
    if given.bounds:
        return _with_bounds_checks(given.most)
    if given.one:
        return _fuzz(given.names[0], given.runs, given.seconds, given.seed)
    sys.path.insert(0, str(Path(__file__).parent))
    from targets import every_target

    known = every_target()
    whole, begun = set(given.names) & set(known), tuple(set(given.names or [""]) - set(known))
    chosen = [name for name in known if name in whole or name.startswith(begun)]
    with ThreadPoolExecutor(given.processes) as pool:
        done = list(pool.map(lambda name: _run(name, given.runs, given.seconds, given.seed), chosen))
    print(f"{sum(one['executions'] for one in done):,} executions of {len(done)} targets")
    failed = [one for one in done if one["findings"] or one["ended"]]
    for one in failed:
        print(f"{one['target']}: {one['findings']} findings, exit code {one['ended']}: {WORK / 'findings'}")
    return 1 if failed else 0


def _with_bounds_checks(most: int) -> int:
    """Fit and draw with every model of the corpus, kept and found, and with mutants, in loops that check indices.

    The loops are compiled anew into a folder of their own: Numba's cache does not tell checked ones apart.
    """
    if os.environ.get("NUMBA_BOUNDSCHECK") != "1":
        with tempfile.TemporaryDirectory() as cache:
            around = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": cache}
            words = [sys.executable, __file__, "--bounds", f"--most={most}"]
            return subprocess.run(words, env=around, check=False).returncode
    sys.path.insert(0, str(Path(__file__).parent))
    from targets import every_target

    target = every_target()["models-fitted"]
    found = [
        path for name in ("models", "models-fitted") for path in sorted((WORK / "corpus" / name).glob("*"))
    ]
    found = Random(0).sample(found, min(most or len(found), len(found)))
    contents = [*target.seeds(), *(path.read_bytes() for path in [*target.kept(), *found])]
    chance, whole = Random(0), list(target.seeds())
    contents += [target.mutate(chance.choice(whole), chance) for _ in range(MUTANTS)]
    with tempfile.TemporaryDirectory() as folder:
        fitted = sum(target.read(content, Path(folder)) for content in contents)
    print(f"{len(contents):,} model files, of which {fitted:,} load, fit and draw with checked indices")
    return 0


def _run(name: str, runs: int, seconds: int, seed: int) -> dict:
    """Fuzz one target in a process of its own, as an input may end it."""
    corpus, findings = WORK / "corpus" / name, WORK / "findings" / name
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    words = [
        sys.executable,
        __file__,
        "--one",
        name,
        f"--runs={runs}",
        f"--seconds={seconds}",
        f"--seed={seed}",
    ]
    began = time.monotonic()
    process = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    seconds_taken = round(time.monotonic() - began)
    log = process.stdout.decode("utf-8", "replace")
    (WORK / f"{name}.log").write_text(log, encoding="utf-8")
    counts = re.findall(r"^(?:#|stat::number_of_executed_units: )(\d+)", log, re.MULTILINE)
    covered = re.findall(r"cov: (\d+)", log)
    done = {
        "target": name,
        "executions": max(map(int, counts), default=0),
        "seconds": seconds_taken,
        "branches": int(covered[-1]) if covered else 0,
        "findings": len(list(findings.iterdir())),
        "ended": process.returncode,
    }
    with open(
        WORK / "runs.jsonl", "a", encoding="utf-8"
    ) as file:  # at once, as a run of hours may be stopped
        file.write(json.dumps(done) + "\n")
    print(json.dumps(done), flush=True)
    return done


def _fuzz(name: str, runs: int, seconds: int, seed: int) -> int:
    import atheris

    sys.path.insert(0, str(Path(__file__).parent))
    about = _about(name)
    with atheris.instrument_imports(include=about["watched"], enable_loader_override=False):
        # Its own module alone: to instrument all that the others import takes longer than 10,000 executions.
        target = next(some for some in import_module(about["module"]).targets() if some.name == name)
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = PIXELS // 2
    corpus, findings = WORK / "corpus" / name, WORK / "findings" / name
    for number, content in enumerate([*target.seeds(), *(path.read_bytes() for path in target.kept())]):
        (corpus / f"seed-{number:04d}").write_bytes(content)
    warnings.simplefilter("error")
    shared = Path("/dev/shm")  # noqa: S108 - a folder with a name of its own is made in it
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as passing:
        folder = Path(passing)

        def one(content: bytes) -> None:
            try:
                target.read(content, folder)
            except BaseException as error:
                _keep(findings, content, error)

        def mutate(content: bytes, most: int, number: int) -> bytes:
            chance = Random(number)
            changed = (
                atheris.Mutate(content, most) if chance.random() < 0.4 else target.mutate(content, chance)
            )
            return changed[:most]

        limits = [f"-timeout={SECONDS}", f"-rss_limit_mb={MEGABYTES}", f"-max_len={target.longest}"]
        ends = [f"-runs={runs}"] if runs else [f"-max_total_time={seconds}"]
        arguments = [sys.argv[0], *limits, *ends, f"-seed={seed}", "-print_final_stats=1", "-len_control=0"]
        arguments += [f"-artifact_prefix={findings}/", str(corpus)]
        atheris.Setup(arguments, one, custom_mutator=mutate)
        atheris.Fuzz()
    return 0


def _about(name: str) -> dict:
    """The module of a target, and those that it wants instrumented: from a process that may import them."""
    asked = "import sys, json; sys.path.insert(0, sys.argv[1]); from targets import every_target; "
    asked += "target = every_target()[sys.argv[2]]; "
    asked += "print(json.dumps({'module': target.module, 'watched': target.watched}))"
    words = [sys.executable, "-c", asked, str(Path(__file__).parent), name]
    return json.loads(subprocess.run(words, capture_output=True, check=True).stdout)


def _keep(findings: Path, content: bytes, error: BaseException) -> None:
    """Keep an input that was neither read nor refused, unless the same line has raised the same before."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{type(error).__name__} {last.filename}:{last.lineno}"
    path = findings / f"found-{sha256(place.encode()).hexdigest()[:12]}"
    if not path.exists():
        path.write_bytes(content)
        told = "".join(traceback.format_exception(error))
        print(f"FINDING {path.name}: {place}\n{told[-3000:]!a}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
