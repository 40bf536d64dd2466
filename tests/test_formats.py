"""Landmark files: every format round-trips, is recognised by its content, and counts as its own tools do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from pliant.data.annotation import Annotation, Convention
from pliant.data.formats import formats, read_annotations, read_landmarks, write_annotations

CONVENTIONS = [
    (name, convention)
    for name, module in formats().items()
    for convention in (module.CONVENTION, *module.VARIANTS.values())
]

EXACT = {"dlib": "dlib:fractions"}
"""Variants that lose nothing, where the format itself rounds."""


@pytest.mark.parametrize(("name", "convention"), CONVENTIONS)
def test_conventions_are_undone_exactly(name, convention, rng):
    points = rng.uniform(-5, 900, (7, 2))
    assert_allclose(
        convention.to_ours(convention.to_theirs(points, (640, 480)), (640, 480)), points, atol=1e-9
    )
    assert convention.reference


def test_what_conventions_mean():
    corner, size = np.array([[0.0, 0.0]]), (640, 480)
    assert_allclose(Convention("", first_pixel=(1, 1)).to_theirs(corner), [[1, 1]])
    assert_allclose(Convention("", y_up=True).to_theirs(corner, size), [[0, 479]])
    assert_allclose(Convention("", (0.5, 0.5), "percent").to_theirs(corner, size), [[0.5 / 6.4, 0.5 / 4.8]])
    with pytest.raises(ValueError, match="need the size of the image"):
        Convention("", y_up=True).to_ours(corner)


@pytest.mark.parametrize("name", sorted(formats()))
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_every_format_round_trips(name, seed, tmp_path_factory):
    """Two objects in images of different sizes, or one if a file of this format holds no more."""
    module, rng = formats()[name], np.random.default_rng(seed)
    path = tmp_path_factory.mktemp("round") / f"a{module.EXTENSIONS[0]}"
    count, square = int(rng.integers(3, 20)), lambda: np.zeros((96, 96), np.uint8)
    annotations = [
        Annotation(image if module.MANY else "", rng.uniform(0, 400, (count, 2)), size=size, pixels=square)
        for image, size in [("one.jpg", (640, 480)), ("two.jpg", (500, 900))][: 1 + module.MANY]
    ]
    write_annotations(path, annotations, EXACT.get(name, name))
    back = read_annotations_as_if_images_were_there(path, annotations)
    if name != "kaggle":  # which holds the images themselves, and no names
        assert [annotation.image for annotation in back] == [annotation.image for annotation in annotations]
    for ours, theirs in zip(annotations, back, strict=True):
        assert_allclose(theirs.points, ours.points, atol=1e-4)


def read_annotations_as_if_images_were_there(path, annotations):
    """What `read_annotations` gives, with the sizes of images that exist only in the annotations."""
    from pliant.data.formats import format_of

    module, convention = format_of(path)
    sizes = {annotation.image: annotation.size for annotation in annotations}
    return module.read(path, convention, sizes.__getitem__)


def test_what_is_no_landmark_file_gets_a_sentence(tmp_path):
    (tmp_path / "a.xyz").write_text("hello")
    with pytest.raises(ValueError, match="a.xyz: this file is in none of the known formats.*pts"):
        read_annotations(tmp_path / "a.xyz")
    with pytest.raises(ValueError, match="b.pts: there is no such landmark file"):
        read_landmarks(tmp_path / "b.pts")
    with pytest.raises(ValueError, match="a.xyz: no format has this ending"):
        write_annotations(tmp_path / "a.xyz", [])
    with pytest.raises(ValueError, match="there is no format 'xyz'"):
        read_annotations(tmp_path / "a.xyz", "xyz")
    with pytest.raises(ValueError, match="no variant 'pts:2-based'.*pts:0-based"):
        read_annotations(tmp_path / "a.xyz", "pts:2-based")


class TestPts:
    def test_the_first_pixel_is_one_one(self, tmp_path):
        (tmp_path / "a.pts").write_text("version: 1\nn_points:  3\n{\n1 1\n2.5 1\n1e1 3.25\n}\n")
        assert_allclose(read_landmarks(tmp_path / "a.pts"), [[0, 0], [1.5, 0], [9, 2.25]])

    @pytest.mark.parametrize(
        "text", ["2 3\n4 5\n6 7", "2, 3\r\n4,5\r\n6\t7\r\n", "\ufeff2 3\n\n4 5\n# note\n6 7\n"]
    )
    def test_without_a_header(self, tmp_path, text):
        (tmp_path / "a.PTS").write_text(text, encoding="utf-8", newline="")
        assert_allclose(read_landmarks(tmp_path / "a.PTS"), [[1, 2], [3, 4], [5, 6]])

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("version: 1\nn_points: 4\n{\n1 1\n2 2\n}", "gives 4 points, but 2 follow"),
            ("1 1\n2 x\n", "line 2: expected two numbers, found '2 x'"),
            ("1 1 1\n", "line 1: expected two numbers"),
            ("n_points: many\n1 1\n", "line 1: 'n_points: many'"),
            ("", "no landmarks"),
        ],
    )
    def test_damage_gets_a_sentence_with_the_line(self, tmp_path, text, sentence):
        (tmp_path / "a.pts").write_text(text)
        with pytest.raises(ValueError, match=f"a.pts.*{sentence}"):
            read_landmarks(tmp_path / "a.pts")
