"""One process with all tests loaded, whose forked children each try a mutant: what `tools/mutants.py` starts.

python tools/mutant_bench.py plain|interpreted|compiled TASK.json

The fixtures of the whole session are made before anything is forked, with unchanged code. First it notes which
test runs which blocks of code, and for how long; a test file that has not changed is not asked again. Then a child
per mutant runs the tests that run its line, and ends at the first that fails.
"""

from __future__ import annotations

import ast
import bisect
import builtins
import contextlib
import gc
import hashlib
import importlib
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from mutations import Mutation, mutations
from transplant import assigned, block_of_lines, transplant, with_record

ROOT = Path(__file__).parents[1]
_SLOW = (0.03, 0.3, 2.0)
"""Seconds that part tests into groups: all of a group are run before any of the next."""

MEMORY = 12 << 30
"""Address space of a child: a mutant that asks for more is caught."""


def module_of(path: str) -> Any:
    name = path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return importlib.import_module(name)


class Bench:
    """A plugin of pytest that tries mutants instead of running the tests."""

    def __init__(self, kind: str, task: dict[str, Any]) -> None:
        self.kind, self.task, self.jobs = kind, task, int(task["jobs"])
        self.caught_by: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for path, function, test in task["caught"]:
            self.caught_by[path, function].append(test)

    def pytest_configure(self) -> None:
        from hypothesis import Phase, settings

        # The same examples every time, and no search for the smallest that fails.
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", database=None, derandomize=True, deadline=None, phases=phases)
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for path in self.task["sources"]:
            module_of(path)
        self.warm(session)
        gc.collect()
        gc.freeze()
        self.items = {item.nodeid: item for item in session.items}
        self.tests = self.record(session)
        self.touching: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for node, (_, passed, functions) in self.tests.items():
            if passed and node in self.items:
                for path, block in functions:
                    self.touching[path, block].add(node)
        for node, (_, passed, _) in self.tests.items():
            if not passed:
                print(f"left out, it fails without a mutant: {node}", flush=True)
        self.shared = self.shared_fixtures(session)
        self.counts = Counter(node.split("::")[0] for node in self.tests)
        self.try_all()
        return True

    def shared_fixtures(self, session: pytest.Session) -> dict[str, dict[str, float]]:
        """For each test, the fixtures of its file that it needs, with what the first test that needs one took."""
        cost: dict[str, float] = {}
        needed: dict[str, dict[str, float]] = {}
        for item in session.items:
            if item.nodeid not in self.tests:
                continue
            found = item._fixtureinfo.name2fixturedefs.items()
            names = [f"{item.path} {name}" for name, made in found if made[-1].scope in ("module", "class")]
            for name in names:
                cost.setdefault(name, self.tests[item.nodeid][0])
            needed[item.nodeid] = {name: cost[name] for name in names}
        return needed

    def warm(self, session: pytest.Session) -> None:
        """Make the fixtures of the session."""
        first, state = session.items[0], session._setupstate
        state.setup(first)
        for name in self.task["fixtures"]:
            first._request.getfixturevalue(name)
        state.teardown_exact(next((i for i in session.items if i.path != first.path), first))

    # What runs what.

    def record(self, session: pytest.Session) -> dict[str, Any]:
        """For each test: seconds, whether it passed, and the blocks that it ran."""
        kept = Path(self.task["scratch"]) / f"tests-{self.kind}.json"
        known = json.loads(kept.read_text()) if kept.exists() else {}
        shared = (ROOT / "tests/conftest.py").read_bytes()
        files: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            files.setdefault(str(item.path.relative_to(ROOT)), []).append(item)
        digests = {f: hashlib.sha256((ROOT / f).read_bytes() + shared).hexdigest() for f in files}
        self.digests = digests
        # A run for other rooms may have asked for a part of the file alone.
        stale = [
            file
            for file, items in files.items()
            if known.get(file, {}).get("digest") != digests[file]
            or not {item.nodeid for item in items} <= {node for node, *_ in known[file]["tests"]}
        ]
        running: dict[int, tuple[str, str, int]] = {}
        while stale or running:
            while stale and len(running) < self.jobs:
                file = stale.pop(0)
                read, write = os.pipe()
                pid = os.fork()
                if pid == 0:
                    os.close(read)
                    self.say_what_runs(files[file], write)
                os.close(write)
                running[read] = (file, "", pid)
            for read in select.select(list(running), [], [])[0]:
                file, text, pid = running[read]
                part = os.read(read, 1 << 20).decode()
                if part:
                    running[read] = file, text + part, pid
                    continue
                os.close(read)
                del running[read]
                os.waitpid(pid, 0)
                tests = [json.loads(line) for line in text.splitlines() if line.endswith("]")]
                known[file] = {"digest": digests[file], "tests": tests}
                kept.write_text(json.dumps(known))
                print(f"{file}: {len(tests)} tests, {sum(t[1] for t in tests):.1f} s", flush=True)
        return {
            node: (seconds, passed, [tuple(f) for f in functions])
            for file in files
            for node, seconds, passed, functions in known[file]["tests"]
        }

    def say_what_runs(self, items: list[pytest.Item], write: int) -> None:
        """In a child: run the tests of a file, and write a line for each."""
        silence()
        seen: set[tuple[str, str]] = set()
        builtins._seen = seen
        for path in self.task["sources"]:
            skipped = compiled_functions(path) if self.kind != "interpreted" else []
            transplant(module_of(path), with_record((ROOT / path).read_text(), path, skipped))
        with os.fdopen(write, "w") as out:
            for item, following in zip(items, [*items[1:], items[-1]], strict=True):
                seen.clear()
                start = time.process_time()
                passed = all(
                    r.passed or r.skipped for r in runtestprotocol(item, log=False, nextitem=following)
                )
                out.write(json.dumps([item.nodeid, time.process_time() - start, passed, sorted(seen)]) + "\n")
                out.flush()
        os._exit(0)

    # Mutants.

    def try_all(self) -> None:
        sources = {path: (ROOT / path).read_text() for path in self.task["sources"]}
        self.blocks = {path: block_of_lines(ast.parse(text)) for path, text in sources.items()}
        every = {path: {m.name: m for m in mutations(text)} for path, text in sources.items()}
        waiting = [(path, every[path][name]) for path, name in self.task["mutants"]]
        running: dict[int, tuple[Any, ...]] = {}
        with open(self.task["results"], "a") as results:
            while waiting or running:
                while waiting and len(running) < self.jobs:
                    path, mutation = waiting.pop(0)
                    tests = list(self.tests_for(path, mutation))
                    if self.task["survived"].get(f"{path} {mutation.name}") == self.digest(tests):
                        continue
                    running[self.start(path, mutation, tests)] = (path, mutation, tests, time.monotonic())
                for pid, status in ended(running, self.limit):
                    path, mutation, tests, begun = running.pop(pid)
                    outcome = self.outcome(pid, path, mutation, tests, status)
                    outcome["seconds"] = round(time.monotonic() - begun, 2)
                    results.write(json.dumps(outcome) + "\n")
                    results.flush()

    def tests_for(self, path: str, mutation: Mutation) -> Iterator[str]:
        """Those that caught a mutant of this function before; then the fast ones, and of these the most fitting."""
        function, block = mutation.function, self.blocks[path].get(mutation.number, "")
        if self.kind == "compiled":
            # It writes instructions when its module is imported, and nothing says who runs them.
            touching = {node for node, (_, passed, _) in self.tests.items() if passed and node in self.items}
        elif block:
            touching = self.touching.get((path, block), set())
        else:
            # Values and defaults of a class or module are used by all that is in it.
            touching = set().union(
                *(t for (p, b), t in self.touching.items() if p == path and b.startswith(function))
            )
        # The file that is about this function comes first: most of its tests run it.
        about = Counter(node.split("::")[0] for node in touching)
        seconds = {node: self.tests[node][0] + sum(self.shared[node].values()) for node in touching}
        before = [node for node in self.caught_by[path, mutation.function][::-1] if node in touching][:6]

        def place(node: str) -> tuple[Any, ...]:
            file = node.split("::")[0]
            slow = bisect.bisect(_SLOW, seconds[node])
            return slow, -round(about[file] / self.counts[file], 1), file, seconds[node], node

        given, paid, left = set(), set(), float(self.task["seconds"])
        for node in [*before, *sorted(touching, key=place)]:
            unpaid = sum(spent for name, spent in self.shared[node].items() if name not in paid)
            cost = self.tests[node][0] + unpaid
            if node not in given and (cost <= left or not given):
                given.add(node)
                paid.update(self.shared[node])
                left -= cost
                yield node

    def digest(self, tests: list[str]) -> str:
        """Of these tests, as they are written: a mutant that has survived them need not try them again."""
        files = {node.split("::")[0] for node in tests}
        text = " ".join([*sorted(self.digests[file] for file in files), *sorted(tests)])
        return hashlib.sha256(text.encode()).hexdigest()

    def start(self, path: str, mutation: Mutation, tests: list[str]) -> int:
        pid = os.fork()
        if pid:
            return pid
        os.setsid()
        silence()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        told = Path(self.task["scratch"]) / f"told-{os.getpid()}"
        try:
            if not self.task["control"]:
                self.apply(path, mutation)
            items = [self.items[node] for node in tests]
            for item, following in zip(items, [*items[1:], *items[-1:]], strict=True):
                told.write_text(item.nodeid)
                if any(r.failed for r in runtestprotocol(item, log=False, nextitem=following)):
                    os._exit(1)
        except BaseException:
            told.write_text("when it is imported")
            os._exit(1)
        os._exit(0)

    def apply(self, path: str, mutation: Mutation) -> None:
        module, tree = module_of(path), mutation.apply()
        values = assigned(tree, mutation.number) if not mutation.function else []
        if self.kind == "compiled":
            values = [*values, *uncached(module)]
        transplant(module, tree, values)

    def limit(self, tests: list[str]) -> float:
        """Seconds of processor time after which a mutant is taken for an endless loop."""
        shared = {name: spent for node in tests for name, spent in self.shared[node].items()}
        compiling = 60 if self.kind == "compiled" else 0
        return 5 + compiling + 3 * (sum(self.tests[node][0] for node in tests) + sum(shared.values()))

    def outcome(
        self, pid: int, path: str, mutation: Mutation, tests: list[str], status: int | None
    ) -> dict[str, Any]:
        told = Path(self.task["scratch"]) / f"told-{pid}"
        test = told.read_text() if told.exists() else ""
        told.unlink(missing_ok=True)
        if status is None:
            result = "endless"
        elif os.waitstatus_to_exitcode(status) == 0:
            result, test = ("survived" if tests else "not run by a test"), ""
        else:
            result = "caught" if os.waitstatus_to_exitcode(status) == 1 else "crashed"
            with contextlib.suppress(ValueError):
                self.caught_by[path, mutation.function].remove(test)
            self.caught_by[path, mutation.function].append(test)
        return {
            "path": path,
            "name": mutation.name,
            "line": mutation.number,
            "source": self.task["digests"][path],
            "bench": self.kind,
            "result": result,
            "test": test,
            "tests": len(tests),
            "tried": self.digest(tests),
        }


def ended(running: dict[int, tuple[Any, ...]], limit: Any) -> Iterator[tuple[int, int | None]]:
    """Children that are done, with how they ended; None for those that had to be stopped."""
    time.sleep(0.01)
    for pid, (_, _, tests, begun) in list(running.items()):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            yield pid, status
        # Processor time, for others may use this machine; and much more on the clock, if it sleeps.
        elif used(pid) > limit(tests) or time.monotonic() - begun > 60 + 10 * limit(tests):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            yield pid, None


def used(pid: int) -> float:
    """Seconds of processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def silence() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def compiled_functions(path: str) -> list[str]:
    """The functions of a file that Numba compiles: they cannot be given other code."""
    tree = ast.parse((ROOT / path).read_text())
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any("compiled" in ast.unparse(d) for d in node.decorator_list)
    ]


def uncached(module: Any) -> list[str]:
    """The names of what Numba compiles in a module, which from now on is compiled without a look at its cache."""
    from numba.core.caching import NullCache
    from numba.core.dispatcher import Dispatcher

    import pliant.compiled

    pliant.compiled._ForgivingCache = lambda function: NullCache()  # type: ignore[misc,assignment]
    return [name for name, value in vars(module).items() if isinstance(value, Dispatcher)]


def main() -> int:
    kind, task = sys.argv[1], json.loads(Path(sys.argv[2]).read_text())
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        options = ["-q", "-s", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist"]
        options += ["--basetemp", f"{folder}/tests", "-o", "tmp_path_retention_policy=failed"]
        return int(pytest.main([*options, *task["tests"]], plugins=[Bench(kind, task)]))


if __name__ == "__main__":
    # Whatever pytest closes at the end was shared with the children.
    code = main()
    sys.stdout.flush()
    os._exit(code)
