"""`pliant fit` as a user gives it: what is said, what is written, and with which exit code."""

import csv
import json
import os
import shutil
import sys
import time

import numpy as np
import pytest
from PIL import Image

import pliant
import pliant.starts.boxes
from pliant.bulk.journal import Journal
from pliant.cli.exits import DONE, ERROR, INCOMPLETE, USAGE
from pliant.progress import Progress
from pliant.synthetic import write_faces
from pliant.table import read_head

QUICK = ("--device", "reference", "--iterations", "3,2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("held-out")
    write_faces(folder, 3, seed=5, image_size=96)
    return folder


@pytest.fixture(scope="module")
def file(model, tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / "faces.pliant"
    model.save(file)
    return file


@pytest.fixture
def fit(file, command):
    """The command with a model and quick settings."""

    def call(*arguments, code=DONE, settings=QUICK):
        return command("fit", file, *arguments, *settings, code=code)

    return call


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_good_and_bad_images(fit, folder, tmp_path):
    mixed, output = tmp_path / "mixed", tmp_path / "a" / "out"
    shutil.copytree(folder, mixed)
    (mixed / "broken.jpg").write_text("no image")
    Image.new("L", (1, 1)).save(mixed / "dot.png")
    done = fit(mixed, "-o", output, "--landmarks", "pts", "--draw", "--csv", code=INCOMPLETE)
    assert "fitted 3 of 5 images" in done.out
    assert "2 could not be fitted" in done.out
    fits = pliant.read_fits(output)
    assert list(fits["image"]) == [str(path) for path in sorted(mixed.iterdir()) if path.suffix != ".pts"]
    reasons = {os.path.basename(image): why for image, why in zip(fits["image"], fits["reason"], strict=True)}
    assert reasons["broken.jpg"] == "this is not an image of a known format."
    assert reasons["dot.png"] == "1 x 1 pixels are too few to find anything."
    assert list(fits["status"] == "failed") == [True, True, False, False, False]
    faces = [f"face-000{k}" for k in range(3)]
    assert files_in(output) == [
        "fits.csv",
        "fits.parquet",
        *(f"landmarks/{name}.pts" for name in faces),
        *(f"pictures/{name}.png" for name in faces),
    ]
    written = pliant.read_landmarks(output / "landmarks" / "face-0001.pts")
    np.testing.assert_allclose(written, fits["points"][3], atol=1e-5)
    assert (output / "pictures" / "face-0001.png").read_bytes().startswith(b"\x89PNG")
    # Without a confidence, and with a status that is fine, the picture is the image with its landmarks.
    picture = pliant.read_image(output / "pictures" / "face-0001.png")
    image = pliant.read_image(folder / "face-0001.jpg")
    np.testing.assert_array_equal(picture, pliant.plots.paint_overlay(image, fits["points"][3], longest=600))
    with open(output / "fits.csv", newline="") as table:
        rows = list(csv.DictReader(table))
    assert [float(row["cost"]) for row in rows[2:]] == pytest.approx(fits["cost"][2:], rel=1e-5)
    assert rows[0]["cost"] == rows[0]["x0"] == ""
    assert (rows[3]["x7"], rows[3]["y7"]) == tuple(f"{value:.3f}" for value in fits["points"][3, 7])
    # This model is not calibrated: nobody knows which landmarks are in doubt.
    assert {row["largest_spread"] + row["doubtful_landmarks"] for row in rows} == {""}
    found = pliant.load_dataset(output / "fits.csv")
    assert [os.path.basename(sample.name) for sample in found] == [f"{name}.jpg" for name in faces]


def test_boxes(fit, file, folder, tmp_path):
    first, second = (pliant.read_landmarks(folder / f"face-000{k}.pts") for k in range(2))
    boxes = tmp_path / "boxes.csv"
    sides = [[*points.min(axis=0), *points.max(axis=0)] for points in (first, second)]
    boxes.write_text(
        "image,left,top,right,bottom\n"
        f"face-0000.jpg,{','.join(map(str, sides[0]))}\n"
        f"{folder.name}/face-0001.jpg,10,10,10,30\n"
    )
    output = tmp_path / "out"
    done = fit(folder / "*.jpg", "-o", output, "--boxes", boxes, "--quiet", code=INCOMPLETE)
    assert done.out == ""
    fits = pliant.read_fits(output)
    assert fits["reason"][0] == ""
    assert "(10, 10, 10, 30) is empty" in fits["reason"][1]
    assert "has no box for this image" in fits["reason"][2]
    assert files_in(output) == ["fits.parquet"]
    start = pliant.starts.boxes.from_box(pliant.load(file), np.array(sides[0]))
    image = folder / "face-0000.jpg"
    [expected] = pliant.fit(pliant.load(file), [image], [start], iterations=(3, 2), device="reference")
    np.testing.assert_allclose(fits["points"][0], expected.points, atol=1e-6)
    boxes.write_text(boxes.read_text() + "other.jpg,1,1,9,9\n")
    done = fit(folder / "*.jpg", "-o", output, "--boxes", boxes, "--resume", code=ERROR)
    assert "start was boxes with the fingerprint" in done.err


def boxes_alone(folder, ending):
    """The boxes of two faces in a file without a landmark; the third face has none."""
    sides = []
    for k in range(2):
        points = pliant.read_landmarks(folder / f"face-000{k}.pts")
        low, high = np.floor(points.min(axis=0)).astype(int), np.ceil(points.max(axis=0)).astype(int)
        sides.append((int(low[0]), int(low[1]), *(int(side) for side in high - low)))
    if ending == ".json":
        return json.dumps(
            {
                "images": [{"id": k, "file_name": f"face-000{k}.jpg"} for k in range(2)],
                "annotations": [{"id": k, "image_id": k, "bbox": sides[k]} for k in range(2)],
            }
        )
    images = "".join(
        f"<image file='face-000{k}.jpg'><box left='{left}' top='{top}' width='{wide}' height='{high}'/>"
        "<box left='1' top='1' width='5' height='5' ignore='1'/></image>"
        for k, (left, top, wide, high) in enumerate(sides)
    )
    return f"<?xml version='1.0'?><dataset><images>{images}</images></dataset>"


@pytest.mark.parametrize("ending", [".xml", ".json"])
def test_boxes_without_landmarks(fit, folder, tmp_path, ending):
    boxes = (tmp_path / "boxes").with_suffix(ending)
    boxes.write_text(boxes_alone(folder, ending))
    fit(folder, "-o", tmp_path / "out", "--boxes", boxes, code=INCOMPLETE)
    fits = pliant.read_fits(tmp_path / "out")
    assert list(fits["status"] == "failed") == [False, False, True]
    for k in range(2):
        truth = pliant.read_landmarks(folder / f"face-000{k}.pts")
        off = np.linalg.norm(fits["points"][k] - truth, axis=1).mean() / np.ptp(truth, axis=0).mean()
        assert off < 0.2


def test_manifests_and_parts(fit, folder, tmp_path):
    manifest = tmp_path / "set" / "manifest.csv"
    manifest.parent.mkdir()
    names = [os.path.relpath(folder / f"face-000{k}.jpg", manifest.parent) for k in range(3)]
    manifest.write_text("image,split\n" + "".join(f"{name},{'ab'[k > 0]}\n" for k, name in enumerate(names)))
    expected = [str(manifest.parent / name) for name in names]
    fit(manifest, "-o", tmp_path / "all")
    assert list(pliant.read_fits(tmp_path / "all")["image"]) == expected
    fit(manifest, "--part", "b", "-o", tmp_path / "b")
    assert list(pliant.read_fits(tmp_path / "b")["image"]) == expected[1:]
    fit(manifest, "--part", "b", "-o", tmp_path / "b", "--resume")
    fit(tmp_path / "all" / "fits.parquet", "-o", tmp_path / "again")
    assert list(pliant.read_fits(tmp_path / "again")["image"]) == expected
    assert (
        "no row is in the part 'c'. Its parts are a, b."
        in fit(manifest, "--part", "c", "-o", "x", code=ERROR).err
    )
    assert (
        "is a folder, but only a manifest has parts" in fit(folder, "--part", "b", "-o", "x", code=ERROR).err
    )


def test_alike_names_from_landmarks(fit, folder, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        for ending in ("jpg", "pts"):
            shutil.copy(folder / f"face-0000.{ending}", tmp_path / name / f"face.{ending}")
    (tmp_path / "two" / "face.pts").unlink()
    output = tmp_path / "out"
    images = (tmp_path / "one", tmp_path / "two", tmp_path / "one" / "face.jpg")
    fit(*images, "-o", output, "--start", "landmarks", "--landmarks", "pts", code=INCOMPLETE)
    assert list(pliant.read_fits(output)["status"] == "failed") == [False, True]
    assert files_in(output) == ["fits.parquet", "landmarks/one-face.pts"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("{images}", "--algorithm", "po-asyn-gn"), "Did you mean 'po-asy-gn'"),
        (("nowhere",), "nowhere: there is no such image or folder"),
        (("{images}", "--boxes", "{boxes}"), "line 1: expected the columns"),
        (
            ("{images}", "--iterations", "2.5"),
            "--iterations 2.5: it must be a whole number of at least 1 for each level",
        ),
        (("{images}", "--device", "abacus"), "--device abacus: it must be cpu, cuda, torch or reference"),
        (("{images}", "--landmarks", "points"), "there is no format 'points'"),
        (("{images}", "--annotations", "fits.pts"), "a .pts file holds the landmarks of one image"),
        (("{images}", "--annotations", "no/fits.json"), "no/fits.json: the folder no does not exist"),
        (("{images}", "{images}/../twin/face-0000.png", "--draw"), "face-0000: fit them separately"),
    ],
)
def test_mistakes_get_one_sentence(fit, folder, tmp_path, arguments, sentence):
    (tmp_path / "boxes.csv").write_text("image,left,top,width,height\nface-0000.jpg,1,1,20,20\n")
    twin = tmp_path / "twin"
    twin.mkdir()
    Image.new("L", (9, 9)).save(twin / "face-0000.png")
    shutil.copy(folder / "face-0000.jpg", twin)
    texts = [argument.format(images=twin, boxes=tmp_path / "boxes.csv") for argument in arguments]
    if "separately" not in sentence:
        (twin / "face-0000.png").unlink()
    settings = [] if "--device" in arguments or "--iterations" in arguments else QUICK
    done = fit(*texts, "-o", tmp_path / "out", code=ERROR, settings=settings)
    assert done.err.startswith("error: ")
    assert sentence in done.err
    assert not (tmp_path / "out").exists()


def test_nothing_is_replaced_but_earlier_fits(fit, folder, tmp_path):
    images = tmp_path / "images"
    shutil.copytree(folder, images)
    (images / "landmarks").mkdir()
    shutil.move(images / "face-0000.pts", images / "landmarks")
    before = files_in(images)
    done = fit(images, "-o", images, "--landmarks", "pts", code=ERROR)
    assert "face-0000.pts would be replaced" in done.err
    assert files_in(images) == before
    # The table alone is in nobody's way, and it does not make the user's landmarks those of an earlier fit.
    fit(images, "-o", images)
    done = fit(images, "-o", images, "--landmarks", "pts", "--overwrite", code=ERROR)
    assert "face-0000.pts would be replaced" in done.err
    assert files_in(images) == sorted([*before, "fits.parquet"])


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        (
            "--bound",
            "4",
            "--bound 4: it must be a share of the object's size above 0 and below 1: 0.04 is 4 %.",
        ),
        ("--bound", "0", "--bound 0: it must be a share"),
        ("--flag-below", "90", "--flag-below 90: it must be a probability from 0 to 1: 0.9 is 90 %."),
    ],
)
def test_shares_are_not_percent(fit, folder, tmp_path, option, value, sentence):
    done = fit(folder, "-o", tmp_path / "out", option, value, code=ERROR)
    assert sentence in " ".join(done.err.split())
    assert not (tmp_path / "out").exists()


def test_no_image_could_be_fitted(fit, folder, tmp_path):
    output, images = tmp_path / "out", tmp_path / "images"
    fit(folder, "-o", output, "--landmarks", "pts", "--quiet")
    shutil.copytree(folder, images)
    for name in images.glob("*.jpg"):
        name.write_text("no image")
    done = fit(images, "-o", output, "--overwrite", code=ERROR)
    assert "no image could be fitted" in done.err
    assert "face-0000.jpg: this is not an image" in done.err
    assert "To fit again to the same place, use pliant fit --overwrite." in " ".join(done.err.split())
    assert list(pliant.read_fits(output)["status"]) == ["failed"] * 3
    assert files_in(output) == ["fits.parquet"]


def test_resume(fit, folder, tmp_path):
    output = tmp_path / "out"
    fit(folder, "-o", output, "--resume")  # nothing there: it begins
    again = fit(folder, "-o", output, "--resume", "--csv")
    assert "nothing to do: this run is already complete" in again.out
    assert files_in(output) == ["fits.csv", "fits.parquet"]
    other = fit(folder, "-o", output, "--resume", "--sampling", "0.5", code=ERROR)
    assert "sampling was 1.0 and is now 0.5" in other.err
    journal = output / "fits.unfinished.jsonl"
    with Journal(
        journal, {**read_head(output / "fits.parquet"), "settings": {"landmarks": "none", "draw": False}}
    ):
        pass
    with open(journal, "a") as file:
        file.write('{"im')
    unfinished = fit(folder, "-o", output, code=ERROR)
    assert "continue with --resume, or write to another folder" in unfinished.err


def test_a_finished_run_is_replaced_on_request_alone(fit, folder, tmp_path):
    output = tmp_path / "out"
    fit(folder, "-o", output, "--landmarks", "pts")
    before = {name: (output / name).read_bytes() for name in files_in(output)}
    for more in ([], ["--landmarks", "pts"], ["--sampling", "0.5"]):
        done = fit(folder, "-o", output, *more, code=ERROR)
        assert "has the fits of a finished run: replace them with --overwrite" in done.err
    plan = fit(folder, "-o", output, "--overwrite", "--dry-run").out
    assert "they would replace the results of an earlier run" in plan
    assert {name: (output / name).read_bytes() for name in files_in(output)} == before
    fit(folder, "-o", output, "--overwrite", "--csv")
    assert files_in(output) == ["fits.csv", "fits.parquet"]


def test_a_name_that_is_not_utf8(fit, folder, tmp_path):
    odd = tmp_path / os.fsdecode(b"caf\xe9.jpg")
    shutil.copy(folder / "face-0000.jpg", odd)
    broken = tmp_path / os.fsdecode(b"\xff.jpg")
    broken.write_text("no image")
    images = (odd, broken, folder / "face-0001.jpg")
    output = tmp_path / "out"
    done = fit(*images, "-o", output, "--csv", "--annotations", tmp_path / "all.csv", code=INCOMPLETE)
    assert r"\xff.jpg: this is not an image" in done.out
    assert list(pliant.read_fits(output)["image"]) == [str(path) for path in images]
    fit(*images, "-o", output, "--resume", code=INCOMPLETE)
    for file in (output / "fits.parquet", output / "fits.csv", tmp_path / "all.csv"):
        samples = pliant.load_dataset(file)
        assert samples[0].image().shape[:2] == (96, 96)


def test_annotations_have_the_confidence_as_their_score(model, folder, command, tmp_path):
    pliant.calibrate(model, pliant.synthetic.faces(12, seed=1, image_size=96), progress=False).save(
        tmp_path / "sure.pliant"
    )
    words = ("-o", tmp_path / "out", "--annotations", tmp_path / "fits.json", *QUICK)
    command("fit", tmp_path / "sure.pliant", folder, *words)
    table = tmp_path / "out/fits.parquet"
    scores = [one.score for one in pliant.read_annotations(tmp_path / "fits.json")]
    assert scores == pytest.approx(list(pliant.read_fits(table)["confidence"]), abs=1e-6)
    assert [one.score for one in pliant.read_annotations(table)] == pytest.approx(scores, abs=1e-6)
    command("convert", table, tmp_path / "again.json")
    assert [one.score for one in pliant.read_annotations(tmp_path / "again.json")] == scores


def test_annotations_may_go_to_the_folder_that_the_run_makes(fit, folder, tmp_path):
    output = tmp_path / "out"
    fit(folder / "face-0000.jpg", "-o", output, "--annotations", output / "all.json")
    assert len(pliant.read_annotations(output / "all.json")) == len(pliant.read_fits(output)["image"])


def test_json_and_dry_run(fit, folder, tmp_path):
    output = tmp_path / "out"
    plan = json.loads(fit(folder, "-o", output, "--dry-run", "--json", "--draw").out)
    assert (plan["images"], plan["done"]) == (3, 0)
    assert plan["settings"]["start"].endswith("then scan, chosen by auto")
    assert plan["writes"] == [str(output / "fits.parquet"), str(output / "pictures")]
    assert "would fit 3 images" in fit(folder, "-o", output, "--dry-run").out
    assert not output.exists()
    outcome = json.loads(fit(folder, "-o", output, "--json").out)
    assert (outcome["images"], outcome["fitted"], outcome["failed"]) == (3, 3, 0)
    assert sum(outcome["statuses"].values()) == 3
    plan = json.loads(fit(folder, "-o", output, "--dry-run", "--json", "--resume").out)
    assert plan["done"] == 3


def test_settings_file_and_verbose(fit, folder, tmp_path):
    settings = tmp_path / "settings.toml"
    settings.write_text('[fit]\niterations = [3, 1]\ndevice = "reference"\n')
    done = fit(folder, "-o", tmp_path / "out", "--settings", settings, "--verbose", settings=())
    assert "iterations: [3, 1]" in done.err
    assert "face-0002.jpg: " in done.err
    fit(folder, "-o", tmp_path / "out", "--settings", tmp_path / "none.toml", code=USAGE)


def test_bar_shows_rate_time_left_and_failures_in_80_columns(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with Progress(True) as bar:
        advance = bar.start("fitting images", 100_000, done=99_000, failed=1_200)
        for number in range(20):
            time.sleep(0.002)
            advance(failed=number % 4 == 0)
    lines = [line for line in capsys.readouterr().err.replace("\r", "\n").splitlines() if "fitting" in line]
    assert "99,020/100,000" in lines[-1]
    assert "/s" in lines[-1]
    assert "left" in lines[-1]
    assert "1,205 failed" in lines[-1]
