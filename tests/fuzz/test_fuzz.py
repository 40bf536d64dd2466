"""Every reader of strangers' files: the kept corpus and a few seeded mutants, the same ones each time.

`make fuzz` runs the same targets for hours, guided by the branches that inputs reach. `PLIANT_FUZZ=20000` tries so
many mutants of each target here.
"""

import os
import signal
from random import Random

import pytest
from targets import every_target

TARGETS = every_target()
MUTANTS = int(os.environ.get("PLIANT_FUZZ", "0"))
SECONDS = 20.0
"""How long one input may take, on a machine that is busy."""


@pytest.fixture
def in_time():
    """Call a function that must end in time."""

    def too_long(*_):
        raise TimeoutError("this input takes too long")

    def call(function, *arguments):
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            return function(*arguments)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    before = signal.signal(signal.SIGALRM, too_long)
    yield call
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", TARGETS)
def test_whole_files_are_read(name, tmp_path):
    target = TARGETS[name]
    seeds = list(target.seeds())
    assert seeds
    assert all(target.read(content, tmp_path) for content in seeds)


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_does_no_harm(name, tmp_path, in_time):
    target = TARGETS[name]
    for path in target.kept():
        try:
            in_time(target.read, path.read_bytes(), tmp_path)
        except BaseException as error:
            pytest.fail(f"{path}: {type(error).__name__}: {str(error)[:300]}")


@pytest.mark.parametrize("name", TARGETS)
def test_mutants_are_read_or_refused(name, tmp_path, in_time):
    target, chance = TARGETS[name], Random(name)
    seeds, outcomes = list(target.seeds()), set()
    for number in range(MUTANTS or target.short):
        damaged = target.mutate(chance.choice(seeds), chance)
        try:
            outcomes.add(in_time(target.read, damaged, tmp_path))
        except BaseException as error:
            kept = tmp_path / "mutant"
            kept.write_bytes(damaged)
            pytest.fail(f"mutant {number}, {kept}: {type(error).__name__}: {str(error)[:300]}")
    assert False in outcomes  # whole files are read, see above: damage must have been noticed
