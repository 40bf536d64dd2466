"""The map of the house: its rooms are the folders that exist, and every arrow is an import."""

import re

import pytest

import draw_map
import rooms
from draw_map import Journey

NEW = {
    "a": "from pliant import b\n",
    "b": "from pliant.c import low\n",
    "c.low": "",
    "c.high": "from pliant import a\n",
}


@pytest.fixture
def source(tmp_path):
    """A package in which c.high needs a, a needs b, and b needs c.low."""
    for name, text in NEW.items():
        file = (tmp_path / name.replace(".", "/")).with_suffix(".py")
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{text}\ndef run(): ...\n")
    (tmp_path / "__init__.py").touch()
    (tmp_path / "c" / "__init__.py").write_text('"""The third room."""')
    return tmp_path


@pytest.fixture(scope="module")
def picture():
    return draw_map.PICTURE.read_text(encoding="utf-8")


def test_the_picture_is_up_to_date(picture):
    assert picture == draw_map.draw(rooms.SOURCE), (
        "rooms, their imports or their docstrings have changed: run python docs/draw_map.py, look at "
        "docs/pictures/map.svg, and commit it."
    )


def test_its_rooms_are_the_folders_and_files_that_exist(picture):
    drawn = set(re.findall(r'data-room="(\w+)"', picture))
    folders = {path.parent.name for path in rooms.SOURCE.glob("*/__init__.py")}
    files = {path.stem for path in rooms.SOURCE.glob("*.py")} - {"__init__", "__main__"}
    assert drawn == folders | files


def test_every_arrow_is_an_import(picture):
    imports = rooms.read_imports(rooms.SOURCE)
    arrows = re.findall(
        r'data-from="([\w.]+)" data-to="([\w.]+)" d="M[\d.]+ ([\d.]+)C.* ([\d.]+)" fill', picture
    )
    assert len(arrows) > 15
    for one, other, top, bottom in arrows:
        assert other in imports[one]
        assert float(top) < float(bottom), f"the arrow from {one} to {other} points upwards"


def test_every_import_points_to_a_lower_row():
    imports = rooms.read_imports(rooms.SOURCE)
    rows = rooms.rows_of(rooms.parts_of(imports), imports)
    row_of = {module: number for number, row in enumerate(rows) for part in row for module in part.modules}
    part_of = {module: part for row in rows for part in row for module in part.modules}
    assert row_of.keys() == imports.keys()
    for module, found in imports.items():
        assert all(part_of[name] is part_of[module] or row_of[name] > row_of[module] for name in found)


def test_a_room_is_split_only_where_it_must_be(source):
    imports = rooms.read_imports(source)
    rows = rooms.rows_of(rooms.parts_of(imports), imports)
    assert [[sorted(part.modules) for part in row] for row in rows] == [
        [["c.high"]],
        [["a"]],
        [["b"]],
        [["c.low"]],
    ]
    (source / "c" / "high.py").write_text("")
    imports = rooms.read_imports(source)
    rows = rooms.rows_of(rooms.parts_of(imports), imports)
    assert [[part.room for part in row] for row in rows] == [["a"], ["b"], ["c"]]


def test_a_new_room_needs_nothing_by_hand(source):
    before = draw_map.draw(source, ())
    (source / "d").mkdir()
    (source / "d" / "__init__.py").write_text('"""A room that is new."""\nfrom pliant import a\n')
    after = draw_map.draw(source, ())
    assert 'data-room="d"' in after
    assert 'data-room="d"' not in before
    assert "A room that is new." in after


def test_imports_that_go_round_get_a_sentence(source):
    (source / "c" / "low.py").write_text("from pliant.c import high\n")
    with pytest.raises(ValueError, match="imports go round between some files of a, b, c"):
        rooms.parts_of(rooms.read_imports(source))


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        (["a:run", "d:run"], "there is no module d in src/pliant"),
        (["a:run", "b:walk"], "there is no walk in b"),
        (["b:run", "a:run"], "no step before a:run is in a file that imports a"),
        (["a:run", "c.low:run"], r"no step before c\.low:run is in a file that imports c\.low"),
    ],
)
def test_a_journey_that_cannot_be_gets_a_sentence(source, steps, sentence):
    journey = Journey("A walk", "#000000", [(step, "") for step in steps])
    with pytest.raises(ValueError, match=sentence):
        draw_map.draw(source, [journey])


def test_a_step_is_called_by_the_latest_one_that_imports_it(source):
    steps = [(step, "") for step in ("a:run", "b:run", "c.low:run")]
    assert draw_map.callers(steps, rooms.read_imports(source)) == [None, 0, 1]
