"""What Python users touch first: one image or many, names, notebooks, and values that say what they are."""

import copy
import dataclasses
import importlib
import json
import pickle
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import pliant
from pliant import plots
from pliant.data.validation import validate

DOCS = Path(__file__).parent.parent
QUICK = {"iterations": (3, 2), "jobs": 1}


@pytest.fixture(scope="module")
def files(dataset, tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    for number in range(3):
        PIL.Image.fromarray(dataset[number].image()).save(folder / f"{number}.png")
    return [folder / f"{number}.png" for number in range(3)]


@pytest.fixture(scope="module")
def fit(model, dataset):
    return pliant.fit(model, dataset[0], dataset[0].points(), **QUICK)


class TestOneImageOrMany:
    def test_one_image_is_one_fit_however_it_is_given(self, model, dataset, files):
        sample = dataset[0]
        image, start = sample.image(), sample.points()
        (expected,) = pliant.fit(model, [image], [start], **QUICK)
        for one in (image, sample, files[0], str(files[0]), PIL.Image.fromarray(image)):
            found = pliant.fit(model, one, start, **QUICK)
            assert isinstance(found, pliant.FitResult)
            np.testing.assert_array_equal(found.points, expected.points)

    def test_one_start_in_any_manner(self, model, dataset):
        image, points = dataset[0].image(), dataset[0].points()
        box = (*points.min(axis=0), *points.max(axis=0))
        ways = [box, [box], np.array([box, box]), lambda image: box, [lambda image: box]]
        fits = [pliant.fit(model, image, way, **QUICK) for way in ways]
        for other in fits:
            np.testing.assert_allclose(other.points, fits[0].points, atol=1e-4)
        assert pliant.fit(model, image, **QUICK).ok

    def test_grey_and_stacks(self, model, dataset):
        colour = np.stack([dataset[k].image() for k in range(3)])
        starts = [dataset[k].points() for k in range(3)]
        assert colour.shape[3] == 3
        grey = colour.mean(axis=3).astype(np.uint8)
        assert isinstance(pliant.fit(model, grey[0], starts[0], **QUICK), pliant.FitResult)
        for many in (colour, grey, list(colour)):
            fits = pliant.fit(model, many, starts, **QUICK)
            assert [one.ok for one in fits] == [True] * 3

    def test_many(self, model, dataset, files):
        starts = [sample.points() for sample in dataset[:3]]
        (first, *_) = pliant.fit(model, dataset[:3], starts, **QUICK)
        generators = ((file for file in files), (start for start in starts))
        for images, given in ((files, starts), (map(str, files), starts), generators):
            fits = pliant.fit(model, images, given, **QUICK)
            assert len(fits) == 3
            np.testing.assert_array_equal(fits[0].points, first.points)
        box = (*starts[0].min(axis=0), *starts[0].max(axis=0))
        assert len(pliant.fit(model, files, lambda image: box, **QUICK)) == 3
        assert pliant.fit(model, [], **QUICK) == []

    def test_a_bad_image_fails_alone(self, model, dataset, files, tmp_path):
        start = dataset[0].points()
        (tmp_path / "broken.jpg").write_text("no image")
        for bad in (tmp_path / "broken.jpg", np.zeros((0, 4)), np.zeros(5)):
            with pytest.warns(pliant.NotFitted, match="the image could not be fitted: "):
                found = pliant.fit(model, bad, start, **QUICK)
            assert found.status == "failed"
            assert found.reason
        with pytest.warns(
            pliant.NotFitted, match=r"1 of 2 images could not be fitted: nowhere\.jpg: there is no"
        ):
            bad, good = pliant.fit(model, ["nowhere.jpg", files[0]], [start, start], **QUICK)
        assert (bad.ok, good.ok) == (False, True)

    def test_a_bad_start_is_warned_of_and_has_no_points(self, model, dataset, files):
        start = dataset[0].points()
        bad = {
            "outside the image": np.array([900, 900, 950, 950]),
            "is empty": np.array([70, 70, 20, 20]),
            r"\(nan, nan, nan, nan\) is empty": np.full(4, np.nan),
            "not an array of shape": np.zeros(3),
            "not finite": np.full_like(start, np.nan),
        }
        for reason, box in bad.items():
            with pytest.warns(pliant.NotFitted, match=f"the image could not be fitted: .*{reason}"):
                found = pliant.fit(model, dataset[0], box, **QUICK)
            assert found.status == "failed"
            assert np.isnan(found.points).all()
            assert found.points.shape == start.shape
        beyond = start + 900
        with pytest.warns(pliant.NotFitted, match=r"^1 of 2 images .*: 1\.png: the start is outside"):
            good, lost = pliant.fit(model, files[:2], [start, beyond], **QUICK)
        assert good.ok
        np.testing.assert_array_equal(lost.start, beyond)
        with pytest.warns(pliant.NotFitted, match="image 0: the start is outside"):
            pliant.fit(model, np.stack([dataset[0].image()] * 2), [beyond, start], **QUICK)
        with pytest.warns(pliant.NotFitted, match="image 1: .*not finite"):
            pliant.fit(model, [dataset[0].image(), np.full((40, 40), np.nan)], [start] * 2, **QUICK)
        with pytest.warns(pliant.NotFitted, match="fitted: object 1: the start is outside"):
            pliant.fit(model, dataset[0], np.array([start, beyond])[:, None], **QUICK)

    def test_many_that_are_missing_are_named_in_short(self, model, files):
        with pytest.warns(pliant.NotFitted) as said:
            fits = pliant.fit(model, [f"{number}.jpg" for number in range(20)] + [files[0]], **QUICK)
        assert [fit.status == "failed" for fit in fits] == [True] * 20 + [False]
        assert str(said[0].message).startswith(
            "20 of 21 images could not be fitted: 0.jpg: there is no such image."
        )
        assert str(said[0].message).endswith("and 17 more like these: see the reason of each result")

    def test_a_single_name_that_is_not_an_image_is_refused(self, model, files):
        with pytest.raises(pliant.data.ImageError, match=r"nowhere\.jpg: there is no such image"):
            pliant.fit(model, "nowhere.jpg")
        folder, pattern = files[0].parent, str(files[0].parent / "*.png")
        for several, kind in ((folder, "folder"), (str(folder), "folder"), (pattern, "pattern")):
            with pytest.raises(pliant.data.ImageError, match=f"this is a {kind}, not an image") as refused:
                pliant.fit(model, several)
            # What it says to give is what can be given.
            given = re.search(r"pliant\.load_dataset\('(.*)'\)", str(refused.value))[1]
            assert len(pliant.fit(model, pliant.load_dataset(given), **QUICK)) == 3

    def test_a_model_may_be_its_file(self, model, dataset, files, tmp_path):
        file = tmp_path / "faces.pliant"
        model.save(file)
        start = dataset[0].points()
        expected = pliant.fit(model, files[0], start, **QUICK)
        for given in (file, str(file)):
            np.testing.assert_array_equal(pliant.fit(given, files[0], start, **QUICK).points, expected.points)
        rows = pliant.evaluate(file, dataset[:2], start="noise", starts=1, iterations=1, progress=False).rows
        assert len(rows) == 2
        assert len(list(pliant.track(file, [files[0]], start))) == 1
        assert pliant.find_starts(file, "centre")(dataset[0].image()).shape == (4,)
        with pytest.raises(pliant.ModelFileError, match=r"face\.pliant: there is no such file"):
            pliant.fit("face.pliant", files[0])
        with pytest.raises(TypeError, match=r"must come from pliant\.train or pliant\.load"):
            pliant.fit({"faces": 1}, files[0])

    def test_starts_that_do_not_match(self, model, dataset, files):
        start = dataset[0].points()
        with pytest.raises(ValueError, match="3 images and 2 starts"):
            pliant.fit(model, files, [start] * 2)
        with pytest.raises(ValueError, match="numbers of starts and images differ"):
            pliant.fit(model, iter(files), iter([start] * 2), **QUICK)

    def test_sources_in_place_of_data_sets(self, face_folders, tmp_path):
        one, several = face_folders / "train", [face_folders / "train", str(face_folders / "test")]
        assert len(pliant.load_dataset(several)) == len(pliant.load_dataset(*several)) == 21
        settings = {"size": 30, "shape_modes": (1, 2), "detector": None, "progress": False}
        expected = pliant.train(pliant.load_dataset(one), **settings, confidence=False)
        for given in (one, str(one), list(pliant.load_dataset(one))):
            trained = pliant.train(given, **settings, confidence=False)
            np.testing.assert_array_equal(trained.levels[0].shape.mean, expected.levels[0].shape.mean)
        rows = pliant.evaluate(expected, one, start="noise", starts=1, iterations=1, progress=False).rows
        assert len(rows) == 2


class TestNames:
    def test_rooms_need_no_import_of_their_own(self):
        code = (
            "import sys, pliant\n"
            "assert not {'numpy', 'pliant.synthetic', 'pliant.plots'} & set(sys.modules)\n"
            "pliant.synthetic.faces, pliant.data.read_annotations, pliant.plots.plot_fit\n"
            "assert {'synthetic', 'plots'} <= set(dir(pliant))\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    @pytest.mark.parametrize(
        "page", ["README.md", *sorted(str(path.relative_to(DOCS)) for path in (DOCS / "docs").rglob("*.md"))]
    )
    def test_every_name_in_the_docs_exists(self, page):
        text = (DOCS / page).read_text(encoding="utf-8")
        parts = re.findall(r"^```python\n(.*?)^```|(?<!`)`([^`\n]+)`|^    (\S[^\n]*)$", text, re.M | re.S)
        code = "\n".join(part for found in parts for part in found)
        names = set(
            re.findall(r"(?<![\w./:-])((?:pliant|plots|report)(?:\.[A-Za-z_]\w*)+)(?![\w/]|\.\w)", code)
        )
        imports = re.findall(r"^from (pliant[\w.]*) import (.+)$", code, re.M)
        for module, listed in imports:
            for name in listed.split(","):
                assert hasattr(importlib.import_module(module), name.strip()), f"{page}: {module}.{name}"
        names -= {module for module, _ in imports}
        for name in names:
            # What is imported along with other things is not promised to be there.
            assert not name.startswith("pliant.") or name.split(".")[1] in dir(pliant), f"{page}: {name}"
        for name in names - NOT_PYTHON:
            room, *rest = name.split(".")
            found = pliant if room == "pliant" else importlib.import_module(f"pliant.{room}")
            for part in rest:
                assert hasattr(found, part), f"{page}: {name}"
                found = getattr(found, part)


NOT_PYTHON = {"report.html"}


class TestNotebooks:
    def test_figures_show_themselves(self, fit, dataset, model):
        image = dataset[0].image()
        for figure in (
            fit.plot(image),
            plots.plot_overlay(image, fit.points),
            plots.plot_landmark_errors(fit.points, np.ones((3, 68))),
            plots.plot_reliability(np.linspace(0, 1, 20), np.arange(20) % 2),
            plots.plot_mean(model),
        ):
            assert figure._repr_png_().startswith(b"\x89PNG")

    def test_a_fit_is_plotted_on_a_file(self, fit, files):
        assert fit.plot(files[0])._repr_png_().startswith(b"\x89PNG")
        assert fit.reconstruction(str(files[0])).shape == (96, 96, 3)

    def test_small_pictures(self, fit, dataset, model):
        for value, pictures in ((dataset, 6), (dataset[:2], 2), (model, 1), (fit, 1)):
            page = value._repr_html_()
            assert page.count("data:image/png;base64,") == pictures
            assert f"<code>{value!r}</code>" in page
            assert len(page) < 400_000

    def test_values_without_a_picture_still_say_what_they_are(self, model, tmp_path):
        with pytest.warns(pliant.NotFitted, match="there is no such image"):
            (failed,) = pliant.fit(model, ["<b>nowhere</b>.jpg"], **QUICK)
        page = failed._repr_html_()
        assert "<img" not in page
        assert "&lt;b&gt;nowhere&lt;/b&gt;.jpg: there is no such image" in page
        (tmp_path / "broken.jpg").write_text("no image")
        assert "1 sample" in pliant.load_dataset(tmp_path)._repr_html_()


def reached(value, seen):
    """All dataclasses that a value is made of."""
    if id(value) in seen:
        return
    seen[id(value)] = value
    if dataclasses.is_dataclass(value):
        for entry in dataclasses.fields(value):
            reached(getattr(value, entry.name), seen)
    elif isinstance(value, (tuple, list)):
        for one in value:
            reached(one, seen)


class TestValues:
    def test_one_line_each(self, calibrated, dataset, face_folders):
        fit = pliant.fit(calibrated, dataset[0], dataset[0].points(), **QUICK)
        assert repr(calibrated) == "Model(68 landmarks, 2 levels, 5 modes of shape, dsift, 24 samples)"
        assert re.fullmatch(r"FitResult\(\w+, 68 points, confidence \d\.\d\d, \d+ iterations?\)", repr(fit))
        faces = pliant.load_dataset(face_folders / "train")
        assert re.fullmatch(r"Dataset\(14 samples, \S+/train\)", repr(faces))
        seen = {}
        for value in (fit, faces, validate(dataset[:3]), dataset[0].annotation()):
            reached(value, seen)
        records = [value for value in seen.values() if dataclasses.is_dataclass(value)]
        assert len({type(value) for value in records}) > 12
        for value in records:
            assert "\n" not in repr(value)
            assert len(repr(value)) < 500, type(value)
            assert value == value
            assert value in {value}

    def test_settings_cannot_be_changed(self, model):
        for change in (
            lambda it: it.__setitem__("size", 1),
            lambda it: it.update(size=1),
            lambda it: it.pop("size", None),
            lambda it: it.clear(),
            lambda it: it.setdefault("new", 1),
        ):
            with pytest.raises(TypeError, match="cannot be changed"):
                change(model.provenance)
        with pytest.raises(FrozenInstanceError):
            model.settings.size = 1
        assert isinstance(model.settings.scales, tuple)
        given = {"nested": {"list": [1, {"a": 2}]}}
        kept = replace(model, provenance=given)
        given["nested"]["list"].append(3)
        assert kept.provenance == {"nested": {"list": (1, {"a": 2})}}
        with pytest.raises(TypeError, match="cannot be changed"):
            kept.provenance["nested"]["list"][1]["a"] = 3

    def test_models_are_copied_pickled_and_saved(self, model, tmp_path):
        model.save(tmp_path / "m.pliant")
        for other in (
            copy.deepcopy(model),
            copy.copy(model),
            pickle.loads(pickle.dumps(model)),
            pliant.load(tmp_path / "m.pliant"),
        ):
            assert other.settings == model.settings
            assert other.provenance == model.provenance
            assert json.loads(json.dumps(other.settings.to_dict()))["scales"] == [0.5, 1.0]
            np.testing.assert_array_equal(other.levels[0].shape.mean, model.levels[0].shape.mean)
            with pytest.raises(FrozenInstanceError):
                other.settings.size = 1
