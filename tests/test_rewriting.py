"""Landmark files are written back with nothing lost: what was not changed keeps its bytes."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.data.annotation import Annotation
from pliant.data.formats import formats, read_annotations, write_annotations
from pliant.data.rewriting import Slot, new_file, open_file, renamed_landmarks, rewritten

SAMPLES = Path(__file__).parent / "samples"

COCO = """{
  "info": {"year": 2026, "note": "kept as it is: 1.50 \\u00e9"},
  "licenses": [{"id": 7, "name": "mine"}],
  "images": [
    {"id": 11, "file_name": "a.png", "width": 60, "height": 40, "coco_url": "x"},
    {"id": 12, "file_name": "b.png", "width": 60, "height": 40},
    {"id": 13, "file_name": "c.png", "width": 60, "height": 40}],
  "categories": [{"id": 1, "name": "face", "keypoints": ["nose", "chin", "ear"], "skeleton": [[1, 2]]},
                 {"id": 2, "name": "car"}],
  "annotations": [
    {"id": 1, "image_id": 11, "category_id": 1, "keypoints": [10.50, 11, 2, 20, 21, 1, 0, 0, 0],
     "num_keypoints": 2, "bbox": [1, 2, 30, 30], "segmentation": [[1.0, 2.00, 3e0]], "iscrowd": 0},
    {"id": 2, "image_id": 11, "category_id": 2, "bbox": [5, 5, 5, 5], "area": 25.0, "iscrowd": 0},
    {"id": 3, "image_id": 12, "category_id": 1, "keypoints": [1, 2, 2, 3, 4, 2, 5, 6, 2], "score": 0.9,
     "num_keypoints": 3, "iscrowd": 0},
    {"id": 4, "image_id": 12, "category_id": 1, "keypoints": [0, 0, 0, 0, 0, 0, 0, 0, 0], "num_keypoints": 0},
    {"id": 5, "image_id": 13, "category_id": 1, "keypoints": [7, 8, 2, 0, 0, 0, 9, 9, 2], "iscrowd": 1}]
}
"""
TPS = """LM=3\r
10.50 11.0\r
20 21\r
-1 -1\r
IMAGE=a.png\r
ID=first\r
COMMENT=by hand = yes\r
SCALE=0.25\r
LM=2
1 2
3 4
CURVES=1
POINTS=1
5 6
OUTLINES=1
POINTS=2
8 8
9 9
IMAGE=b.png
ID=2
LM=0
IMAGE=c.png
VARIABLES=x
"""
DLIB = """<?xml version='1.0' encoding='UTF-8'?>
<!-- made by hand -->
<dataset><name>mine</name><comment>all &amp; more</comment>
<images>
  <image file='a.png' width='60' height='40'>
    <box top='2' left='1' width='30' height='30' label='face' occluded='1'>
      <part name='chin' x='20' y='21'/> <!-- sure -->
      <part name="nose" x='10' y='11' note='>'></part>
    </box>
    <box top='1' left='1' width='3' height='3' ignore='1'/>
  </image>
  <image file='b.png'>
    <box top='3' left='2' width='5' height='6'>
      <part name='chin' x='3' y='4'/>
      <part name='ear' x='5' y='6'/>
      <part name='nose' x='1' y='2'/>
    </box>
    <box top='9' left='9' width='9' height='9'/>
  </image>
  <image file='c.png'/>
</images></dataset>
"""
WIDE = """id;nose_x;nose_y;note;chin_x;chin_y;ear_x;ear_y;image
1;10.50;11;"a ; ""quoted"" note";20;21;;;a.png
2;1;2;x;3;4;5;6;b.png
3;NA;NA;"two
lines";;;;;c.png"""
LONG = """image,landmark,x,y,who
a.png,nose,10.50,11,me
a.png,chin,20,21,"you, too"
b.png,nose,1,2,
b.png,chin,3,4,
b.png,ear,5,6,
"""
PTS = """version: 1
// by hand
n_points: 3
{
 10.50\t11
20 , 21
nan nan
}
# the end
"""
ASF = """# AAM Shape File
# number of model points
3

0 \t0 0.25 0.50 0 2 1
0 4\t0.125  0.75 1 0 2
1 0 0.5 0.5 2 1 0
# host image
a.png
"""
LJSON = """{"version": 3, "note": "kept",
 "groups": {"face": {"labels": [{"label": "all", "mask": [0, 1, 2]}],
   "landmarks": {"connectivity": [[0, 1]], "points": [[10.50, 11], [20, 21.0], [null, null]]}}}}
"""
DEEPLABCUT = """scorer,,,ann,ann,ann,ann,ann
individuals,,,one,one,one,two,two
bodyparts,,,nose,nose,nose,nose,nose
coords,,,x,y,likelihood,x,y
labeled-data,v,a.png,1.50,2,0.9,3,4
labeled-data,v,b.png,5,6,0.25,,
"""
WFLW = """10.50 11 20 21 30 31 1 2 40 39 1 0 0 0 1 0 a.png
1 2 3 4 5 6 1 2 9 9 0 0 0 0 0 0 sub dir/b.png
"""
DOCUMENTS = {
    "asf": ("a.asf", ASF),
    "ljson": ("a.ljson", LJSON),
    "deeplabcut": ("all.csv", DEEPLABCUT),
    "wflw": ("all.txt", WFLW),
    "coco": ("all.json", COCO),
    "tps": ("all.tps", TPS),
    "dlib": ("all.xml", DLIB),
    "csv": ("all.csv", WIDE),
    "csv-long": ("all.csv", LONG),
    "pts": ("a.pts", PTS),
    "txt": ("a.txt", "# by hand\n10.50 11\n20;21\n\n30 31 \n"),
}
NUMBERS = re.compile(rb"-?\d+(?:\.\d+)?|nan|NA")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    for name in ("a", "b", "c", "d"):
        PIL.Image.new("L", (60, 40)).save(folder / f"{name}.png")
    return folder


def opened(place, name):
    file, text = DOCUMENTS[name]
    path = place / name / file
    path.parent.mkdir(exist_ok=True)
    for image in place.glob("*.png"):
        if not (path.parent / image.name).exists():
            (path.parent / image.name).write_bytes(image.read_bytes())
    path.write_bytes(text.encode())
    return open_file(path)


def moved(slot, landmark, pair):
    numbers = slot.numbers.copy()
    numbers[landmark] = pair
    return replace(slot, numbers=numbers)


@pytest.mark.parametrize("name", DOCUMENTS)
class TestInPlace:
    def test_nothing_changed_is_the_same_file(self, place, name):
        file = opened(place, name)
        assert not file.loss
        assert file.text is not None
        assert rewritten(file, {})[0] == file.path.read_bytes()

    def test_all_that_the_reader_finds_is_there(self, place, name):
        file = opened(place, name)
        read = [one for one in read_annotations(file.path) if np.isfinite(one.points).any()]
        slots = [slot for slot in file.contents.slots if not slot.empty]
        assert [slot.image for slot in slots] == [annotation.image for annotation in read]
        for slot, annotation in zip(slots, read, strict=True):
            ours = file.convention.to_ours(slot.numbers, (60, 40))
            np.testing.assert_allclose(ours, annotation.points, atol=1e-9)
            assert slot.names == annotation.names

    def test_one_moved_point_changes_two_numbers(self, place, name):
        file = opened(place, name)
        number = min(1, len(file.contents.slots) - 1)
        slot = file.contents.slots[number]
        landmark = len(slot.numbers) // 2
        content, after = rewritten(file, {number: moved(slot, landmark, (33, 17))})
        before = file.path.read_bytes()
        # Without any number the two are one; and of the numbers only two are others.
        assert NUMBERS.sub(b"", content) == NUMBERS.sub(b"", before)
        pairs = zip(NUMBERS.findall(content), NUMBERS.findall(before), strict=True)
        assert {float(new) for new, old in pairs if new != old} == {33, 17}
        np.testing.assert_array_equal(after.contents.slots[number].numbers[landmark], (33, 17))

    def test_a_point_goes_and_comes_back(self, place, name):
        file = opened(place, name)
        slot = file.contents.slots[0]
        if name in ("asf", "wflw"):
            with pytest.raises(ValueError, match="missing"):
                rewritten(file, {0: moved(slot, -1, np.nan)})
            return
        _, gone = rewritten(file, {0: moved(slot, -1, np.nan)})
        assert np.isnan(gone.contents.slots[0].numbers[-1]).all()
        content, back = rewritten(gone, {0: moved(gone.contents.slots[0], -1, slot.numbers[-1])})
        np.testing.assert_allclose(back.contents.slots[0].numbers, slot.numbers)
        file.path.write_bytes(content)
        assert not open_file(file.path).loss

    @settings(max_examples=8, deadline=None)
    @given(data=st.data())
    def test_any_edits_come_back_and_touch_nothing_else(self, place, name, data):
        file = opened(place, name)
        wanted = [slot.numbers.copy() for slot in file.contents.slots]
        content = file.path.read_bytes()
        for _ in range(data.draw(st.integers(1, 4))):
            number = data.draw(st.sampled_from([k for k, some in enumerate(wanted) if len(some)]))
            landmark = data.draw(st.integers(0, len(wanted[number]) - 1))
            pair = data.draw(st.one_of(st.none(), st.tuples(st.integers(0, 39), st.integers(0, 39))))
            others = [some[landmark] for k, some in enumerate(wanted) if k != number and len(some)]
            if pair is None and (name in ("asf", "wflw") or (name == "dlib" and np.isnan(others).all())):
                continue  # The format has no word for this: such a change is refused.
            wanted[number][landmark] = np.nan if pair is None else np.array(pair) + (name != "dlib") / 8
            slot = replace(file.contents.slots[number], numbers=wanted[number].copy())
            if name == "coco":
                slot = replace(slot, hidden=np.isfinite(slot.numbers).all(axis=1) & (np.arange(3) == 1))
            content, file = rewritten(file, {number: slot})
        file.path.write_bytes(content)
        again = open_file(file.path)
        for slot, numbers in zip(again.contents.slots, wanted, strict=True):
            np.testing.assert_allclose(slot.numbers, numbers, atol=1e-5)


@pytest.mark.parametrize(("name", "pair"), [("tps", (-3, 1)), ("dlib", np.nan)])
def test_what_a_format_cannot_hold_is_refused(place, name, pair):
    file = opened(place, name)
    with pytest.raises(ValueError, match="would change|negative"):
        rewritten(file, {1: moved(file.contents.slots[1], 1, pair)})


@pytest.mark.parametrize("name", ["coco", "tps", "dlib", "csv", "csv-long"])
def test_objects_of_further_images_are_added(place, name):
    file = opened(place, name)
    numbers = np.array([[1.0, 2.0], [np.nan, np.nan], [5.0, 6.0]])
    names = file.contents.slots[0].names
    added = [Slot(image, numbers, names, size=(60, 40)) for image in ("d.png", "é, 1.png")]
    content, after = rewritten(file, {}, added)
    file.path.write_bytes(content)
    for slot in added:
        assert any(
            other.image == slot.image and np.allclose(other.numbers, numbers, equal_nan=True)
            for other in open_file(file.path).contents.slots
        )
    # What was there is there still, in its order.
    new = iter(content)
    assert all(byte in new for byte in DOCUMENTS[name][1].encode().replace(b"c.png'/>", b"c.png'"))
    assert len(after.contents.slots) == len(file.contents.slots) + 2


def test_a_specimen_that_nobody_digitised_gets_its_landmarks(place):
    file = opened(place, "tps")
    slot = file.contents.slots[2]
    content, after = rewritten(file, {2: replace(slot, numbers=np.arange(6.0).reshape(3, 2), spacing=0.5)})
    assert re.search(rb"LM=3\s+0.00000 1.00000\s+2.00000 3.00000\s+4.00000 5.00000\s+IMAGE=c.png", content)
    assert after.contents.slots[2].spacing == 0.5
    assert content.count(b"VARIABLES=x") == 1


def test_scale_is_written_changed_and_taken_away(place):
    file = opened(place, "tps")
    first, second = file.contents.slots[:2]
    content, after = rewritten(file, {0: replace(first, spacing=0.5), 1: replace(second, spacing=2.0)})
    assert [slot.spacing for slot in after.contents.slots] == [0.5, 2.0, None]
    assert b"COMMENT=by hand = yes\r\nSCALE=0.5\r\n" in content
    content, after = rewritten(after, {0: replace(after.contents.slots[0], spacing=None)})
    assert after.contents.slots[0].spacing is None
    assert b"SCALE=0.5" not in content


def test_hidden_is_kept_by_coco(place):
    file = opened(place, "coco")
    slot = replace(file.contents.slots[1], hidden=np.array([False, True, False]))
    content, _ = rewritten(file, {1: slot})
    assert b"[1, 2, 2, 3, 4, 1, 5, 6, 2]" in content


def test_a_box_around_its_landmarks_follows_them(tmp_path):
    PIL.Image.new("L", (60, 40)).save(tmp_path / "a.png")
    points = np.array([[1.0, 2.0], [11.0, 22.0]])
    for name in ("all.json", "all.xml"):
        path = tmp_path / name
        write_annotations(path, [Annotation("a.png", points)])
        file = open_file(path)
        content, _ = rewritten(file, {0: moved(file.contents.slots[0], 1, (31, 12))})
        path.write_bytes(content)
        np.testing.assert_allclose(read_annotations(path)[0].box, [0.5, 1.5, 31.5, 12.5], atol=0.01)


def test_landmarks_of_coco_get_other_names(place):
    file = opened(place, "coco")
    content, after = renamed_landmarks(file, ("nose", "chin", "ear"), ("A", "B", "C"))
    assert after.contents.slots[0].names == ("A", "B", "C")
    assert content == COCO.replace('["nose", "chin", "ear"]', '["A", "B", "C"]').encode()


@pytest.mark.parametrize(
    ("file", "lost"),
    [
        ("cvat_images.xml", "<meta>"),
        ("label_studio.json", "would lose"),
        ("kaggle.csv", "read but not written"),
    ],
)
def test_what_would_lose_something_is_not_written_and_says_what(file, lost):
    found = open_file(SAMPLES / file)
    assert lost in found.loss
    assert "pliant convert" in found.loss
    with pytest.raises(ValueError, match=re.escape(found.loss)):
        rewritten(found, {})


@pytest.mark.parametrize("name", sorted(set(formats()) - {"sleap", "imagej", "kaggle"}))
def test_files_of_ours_are_written_back_in_every_format(place, name):
    module = formats()[name]
    ending = module.EXTENSIONS[0]
    path = place / f"{name}-{'all' if module.MANY else 'one'}{ending}"
    image = "a.png" if module.MANY or name == "asf" else ""
    if not image:
        (place / f"{path.stem}.png").write_bytes((place / "a.png").read_bytes())
    points = np.array([[10.5, 11.25], [20, 21], [30, 31]])
    if name == "dlib":
        points = np.round(points)
    write_annotations(path, [Annotation(image, points, size=(60, 40))], name)
    file = open_file(path, name)
    assert not file.loss
    slot = file.contents.slots[0]
    target = np.array([33.0, 17.0])
    numbers = slot.numbers.copy()
    numbers[1] = file.convention.to_theirs(target, (60, 40))
    content, _ = rewritten(file, {0: replace(slot, numbers=numbers)})
    path.write_bytes(content)
    points[1] = target
    np.testing.assert_allclose(read_annotations(path, name)[0].points, points, atol=1e-4)
    made = new_file(path, name, [Slot(image, numbers, size=(60, 40))]) if file.text is not None else content
    path.write_bytes(made)
    np.testing.assert_allclose(read_annotations(path, name)[0].points[1], target, atol=1e-4)


def test_names_of_files_that_are_no_utf8_survive(tmp_path):
    document = json.loads(COCO)
    document["images"][0]["file_name"] = "bytes:caf%E9.png"
    (tmp_path / "all.json").write_text(json.dumps(document))
    file = open_file(tmp_path / "all.json")
    assert file.contents.slots[0].image == "caf\udce9.png"
    content, _ = rewritten(file, {0: moved(file.contents.slots[0], 0, (1, 1))})
    assert json.loads(content)["images"] == document["images"]
