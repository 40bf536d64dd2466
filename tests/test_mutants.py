"""The program behind `make mutants` changes what it says, and puts it where the tests find it."""

import ast
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]

SOURCE = '''
from functools import cache

LIMIT = 3

class Box:
    wide: int = 2

    def area(self, high=4):
        """The area."""
        if high < LIMIT and self.wide:
            return 0
        return self.wide * -high

def adder(more):
    def add(x):
        x += more
        return x
    return add

add_two = adder(2)

@cache
def twice(x: int = 1) -> int:
    values = [x, x]
    values.append(x)
    return sum(values[:x])
'''


@pytest.fixture(scope="module", autouse=True)
def tools():
    sys.path.insert(0, str(ROOT / "tools"))
    yield
    sys.path.remove(str(ROOT / "tools"))


@pytest.fixture
def module(monkeypatch):
    made = ModuleType("mutated")
    made.__file__ = "mutated.py"
    monkeypatch.setitem(sys.modules, "mutated", made)
    exec(compile(SOURCE, "mutated.py", "exec"), vars(made))
    return made


def named(text):
    from mutations import mutations

    [found] = [one for one in mutations(SOURCE) if one.name == text]
    return found


def put(module, text):
    from transplant import assigned, transplant

    mutation = named(text)
    tree = mutation.apply()
    transplant(module, tree, assigned(tree, mutation.number) if not mutation.function else [])


def test_each_change_is_one_and_has_a_name_of_its_own():
    from mutations import mutations

    plain, found = ast.unparse(ast.parse(SOURCE)), mutations(SOURCE)
    assert len({one.name for one in found}) == len(found) == len({ast.unparse(m.apply()) for m in found})
    for one in found:
        changed = ast.unparse(one.apply())
        differing = [a for a, b in zip(plain.splitlines(), changed.splitlines(), strict=True) if a != b]
        assert len(differing) == 1, one.name


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("Box.area | return self.wide * -high | * -> /", -8, -0.5),
        ("Box.area | return self.wide * -high | -x -> x", -8, 8),
        ("Box.area | def area(self, high=4): | 4 -> 5", -8, -10),
        ("Box | wide: int = 2 | 2 -> 3", -8, -12),
        ("<module> | LIMIT = 3 | 3 -> 4", -8, -8),
        ("Box.area | if high < LIMIT and self.wide: | and -> or", -8, 0),
    ],
)
def test_a_mutant_takes_the_place_of_what_is_imported(module, name, before, after):
    held = module.Box
    assert held().area() == before
    put(module, name)
    assert held().area() == after


def test_values_are_bound_anew_where_others_hold_them_and_caches_are_emptied(module, monkeypatch, tmp_path):
    (tmp_path / "user.py").write_text("from mutated import LIMIT")
    (tmp_path / "namesake.py").write_text("LIMIT = 3")
    user, namesake = (ModuleType(name) for name in ("user", "namesake"))
    for other in (user, namesake):
        other.LIMIT, other.__file__ = module.LIMIT, str(tmp_path / f"{other.__name__}.py")
        monkeypatch.setitem(sys.modules, other.__name__, other)
    put(module, "<module> | LIMIT = 3 | 3 -> 4")
    assert (module.LIMIT, user.LIMIT, namesake.LIMIT) == (4, 4, 3)
    held = module.twice
    assert held(3) == 9
    put(module, "twice | values.append(x) | removed")
    assert held(3) == 6


def test_a_closure_that_no_longer_needs_a_variable_is_replaced(module):
    assert module.add_two(3) == 5
    put(module, "adder.add | x += more | removed")
    assert module.add_two(3) == 3


def test_blocks_that_run_are_known(module, monkeypatch):
    from transplant import block_of_lines, transplant, with_record

    seen = set()
    monkeypatch.setattr("builtins._seen", seen, raising=False)
    transplant(module, with_record(SOURCE, "path"))
    module.Box().area()
    blocks = block_of_lines(ast.parse(SOURCE))
    line = {text.strip(): blocks.get(number) for number, text in enumerate(SOURCE.splitlines(), 1)}
    assert ("path", line["return self.wide * -high"]) in seen
    assert ("path", line["return 0"]) not in seen


def test_every_reason_is_that_of_a_mutant():
    from mutants import equivalents, sources
    from mutations import mutations

    known = {(path, m.name) for path in sources() for m in mutations((ROOT / path).read_text())}
    assert not set(equivalents()) - known


def test_the_tests_that_should_notice_are_there():
    from mutants import LOOP_TESTS, TESTS, test_files

    names = " ".join([LOOP_TESTS, *TESTS.values()])
    missing = [name for name in test_files(names) if not (ROOT / name.split("::")[0]).is_file()]
    assert not missing
