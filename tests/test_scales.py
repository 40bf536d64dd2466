"""The length of a pixel comes along from file to file, and is asked for where it is lost."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import pliant
from pliant.data.formats import tps
from pliant.data.scales import given_scale, scale_of
from pliant.morphometrics import join_sets, read_specimens


@pytest.fixture
def wings(face_folders, tmp_path, monkeypatch):
    """`wings.tps` with a scale for each of the images in `photos`; the working folder is theirs."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(face_folders / "train", "photos")
    annotations = [
        pliant.data.Annotation(
            Path(sample.name).name,
            sample.points(),
            size=(sample.image().shape[1], sample.image().shape[0]),
            spacing=round(0.003 + 0.0001 * number, 6),
        )
        for number, sample in enumerate(pliant.load_dataset("photos"))
    ]
    pliant.write_annotations("wings.tps", annotations)
    for file in Path("photos").glob("*.pts"):
        file.unlink()
    return annotations


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("0.0034", 0.0034),
        ("0,0034", 0.0034),
        (" 1,5 ", 1.5),
        ("", None),
        ("0", None),
        ("-1", None),
        ("1,2,3", None),
    ],
)
def test_a_decimal_comma_is_a_decimal_point(text, length):
    assert tps.pixel_length(text) == length


def test_a_tps_file_with_decimal_commas_has_its_scales(wings):
    commas = Path("wings.tps").read_text().replace("SCALE=0.", "SCALE=0,")
    Path("commas.tps").write_text(commas)
    read = [one.spacing for one in pliant.read_annotations("commas.tps", images="photos")]
    assert read == [one.spacing for one in wings]


@pytest.mark.parametrize("file", ["wings.csv", "wings.parquet"])
def test_tables_keep_scales(wings, file):
    first, *others = wings
    pliant.write_annotations(file, [pliant.data.Annotation(first.image, first.points), *others])
    read = [one.spacing for one in pliant.read_annotations(file)]
    assert read == [None, *(one.spacing for one in others)]


def test_held_out_samples_keep_their_scales(wings, command):
    words = ("--images", "photos", "--hold-out", "0.25", "--preset", "quick", "--no-confidence")
    command("train", "wings.tps", "-o", "m.pliant", *words)
    by_name = {one.image: one.spacing for one in wings}
    held = pliant.load_dataset("m.held-out.csv")
    assert len(held) > 1
    assert all(sample.spacing() == by_name[Path(sample.name).name] for sample in held)
    assert "units" in command("evaluate", "m.pliant", "m.held-out.csv", "--start", "noise").out


def test_convert_takes_a_scale(wings, command):
    bare = [pliant.data.Annotation(f"photos/{one.image}", one.points) for one in wings]
    pliant.write_annotations("bare.csv", bare)
    said = command("convert", "bare.csv", "bare.tps").err
    assert said == "No object has a scale, so there is no SCALE: --scale NUMBER says how long a pixel is.\n"
    assert command("convert", "bare.csv", "bare.parquet").err == ""
    assert "SCALE" not in Path("bare.tps").read_text()
    for scale, expected in (("0,02", [0.02] * 14), ("wings.tps", [one.spacing for one in wings])):
        assert command("convert", "bare.csv", "scaled.tps", "--scale", scale, "--overwrite").err == ""
        assert [one.spacing for one in tps.read_specimens(Path("scaled.tps"))] == expected
    words = ("convert", "wings.tps", "kept.tps", "--images", "photos", "--scale")
    said = command(*words, "7").err
    assert said.startswith(
        "14 images, such as face0.png, have a scale of their own, which was used in place of "
    )
    assert said.endswith("of --scale 7.\n")
    assert json.loads(command(*words, "7", "--json", "--dry-run", "--overwrite").out)["notes"] == [
        said.strip()
    ]
    assert command(*words, "wings.tps", "--overwrite").err == ""
    assert tps.read_specimens(Path("kept.tps"))[0].spacing == wings[0].spacing


def test_a_scale_that_is_not_used_is_said(wings, command):
    words = ("morphometrics", "wings.tps", "--unit", "mm", "--overwrite", "-o", "shapes", "--scale")
    said = command(*words, "0.1")
    sentence = (
        "14 images, such as face0.png, have a scale of their own, which was used in place of --scale 0.1.\n"
    )
    assert said.err == sentence
    assert json.loads(command(*words, "0.1", "--json").out)["notes"] == [sentence.strip()]
    assert command(*words, "wings.tps").err == ""
    Path("one.csv").write_text("image,scale\nface3.png,0.5\n")
    said = command(*words, "one.csv").err
    assert said == "face3.png has a scale of its own, which was used in place of --scale one.csv.\n"


def test_a_file_of_scales_of_other_images(wings, command):
    bare = [pliant.data.Annotation(f"photos/{one.image}", one.points) for one in wings]
    pliant.write_annotations("bare.csv", bare)
    Path("others.tps").write_text(Path("wings.tps").read_text().replace("IMAGE=face", "IMAGE=fly"))
    sentence = "this file names none of the 14 images: it has fly0.png, for example, and not face0.png."
    for words in (("morphometrics", "bare.csv", "-o", "shapes"), ("convert", "bare.csv", "bare.tps")):
        assert f"--scale others.tps: {sentence}" in command(*words, "--scale", "others.tps", code=3).err
    with pytest.raises(ValueError, match="nothing.tps: this file cannot be read"):
        read_specimens("bare.csv", scale="nothing.tps")


def test_scales_that_are_given(wings):
    Path("table.csv").write_text('image,scale\nfolder/a.jpg,0.5\nb.jpg,"0,25"\n')
    given = given_scale("table.csv")
    assert scale_of(given, "elsewhere/a.jpg") == 0.5
    assert scale_of(given, "b.jpg") == 0.25
    assert scale_of(given, "c.jpg") is None
    assert scale_of(given_scale(0.1), "anything") == 0.1
    Path("spreadsheet.csv").write_text("\ufeffImage;Scale\na.jpg;0,5\nb, c.jpg;0.25\n", encoding="utf-8")
    given = given_scale("spreadsheet.csv")
    assert [scale_of(given, name) for name in ("a.jpg", "b, c.jpg")] == [0.5, 0.25]
    Path("short.csv").write_text("image;scale\na.jpg\n")
    with pytest.raises(ValueError, match="short.csv, line 2: the scale of a.jpg must be a number above 0"):
        given_scale("short.csv")
    for wrong, sentence in (
        ("-1", "must be above 0"),
        ("nothing.csv", "neither a number nor"),
        ("no.tps", "read"),
    ):
        with pytest.raises(ValueError, match=sentence):
            given_scale(wrong)


def test_replicates_without_a_scale_have_that_of_their_images(wings, command):
    pliant.write_annotations(
        "again.csv", [pliant.data.Annotation(f"photos/{a.image}", a.points) for a in wings]
    )
    alone = read_specimens("again.csv")
    assert any("No image has a scale" in note for note in alone.notes)
    joined = join_sets([read_specimens("wings.tps", unit="mm"), alone])
    assert joined.notes == ()
    assert joined.length_unit == "mm"
    np.testing.assert_allclose(joined.scales[:14], joined.scales[14:])
    said = command("morphometrics", "wings.tps", "--replicates", "again.csv", "--unit", "mm", "-o", "shapes")
    assert "No image has a scale" not in said.err
    assert " mm," in said.out


def test_replicates_of_other_images_lack_a_scale(wings):
    other = [pliant.data.Annotation(f"{Path(a.image).stem}.tif", a.points) for a in wings]
    pliant.write_annotations("again.csv", other)
    joined = join_sets([read_specimens("wings.tps", unit="mm"), read_specimens("again.csv")])
    assert any("No scale: 14 specimens of 28" in note for note in joined.notes)


def test_the_studio_can_change_the_scale_in_a_table(wings):
    from dataclasses import replace

    from pliant.data.rewriting import open_file, rewritten

    pliant.write_annotations("wings.csv", wings)
    file = open_file(Path("wings.csv"))
    assert file.contents.slots[0].spacing == wings[0].spacing
    content, _ = rewritten(file, {0: replace(file.contents.slots[0], spacing=0.5)}, [])
    Path("wings.csv").write_bytes(content)
    assert [one.spacing for one in pliant.read_annotations("wings.csv")][:2] == [0.5, wings[1].spacing]


def spoilt(file, image, value="1 px = 0.0048 mm"):
    """A TPS file in which the SCALE of an image cannot be read, and the line that it is in."""
    lines = Path("wings.tps").read_text().splitlines()
    at = next(n for n in range(lines.index(f"IMAGE={image}"), len(lines)) if lines[n].startswith("SCALE="))
    lines[at] = f"SCALE={value}"
    Path(file).write_text("\n".join(lines))
    return at + 1


def test_a_scale_that_cannot_be_read_is_said_where_it_matters(wings, command):
    line = spoilt("odd.tps", "face3.png")
    what = f"SCALE in line {line} is '1 px = 0.0048 mm', which is not a number above 0"
    assert len(pliant.load_dataset("odd.tps", images="photos")) == 14
    said = command("check", "odd.tps", "--images", "photos", "--json", code=3)
    found = [one for one in json.loads(said.out)["suspects"] if one["check"] == "scale"]
    assert [(Path(one["sample"]).name, one["reason"]) for one in found] == [("face3.png", f"{what}.")]
    assert (
        command("check", "odd.tps", "--images", "photos", "--skip", "scale,turned,duplicate,blank").err == ""
    )
    said = command("morphometrics", "odd.tps", "-o", "shapes").err
    assert f"odd.tps: {what}: correct it.\n" in said
    assert "No scale: 1 specimen of 14" in said
    words = ("convert", "odd.tps", "odd.csv", "--images", "photos")
    assert f"face3.png: {what}: correct it.\n" in command(*words).err
    again = (*words, "--overwrite", "--scale")
    assert command(*again, "0.1").err.startswith("13 images, such as face0.png, have a scale of their own")
    assert f"odd.tps: {what}: correct it." in command(*again, "odd.tps", code=1).err


def test_a_scale_in_a_table_that_cannot_be_read(wings):
    pliant.write_annotations("wings.csv", wings)
    text = Path("wings.csv").read_text().replace(",0.003,", ",wide,").replace(",0.0031,", ",NA,")
    Path("wings.csv").write_text(text)
    first, second, *_ = pliant.read_annotations("wings.csv")
    assert first.unread_scale == "the scale in line 2 is 'wide', which is not a number above 0"
    assert (first.spacing, second.spacing, second.unread_scale) == (None, None, "")


def test_several_scales_that_cannot_be_read_are_one_sentence(wings):
    Path("odd.tps").write_text(Path("wings.tps").read_text().replace("SCALE=", "SCALE=about "))
    notes = read_specimens("odd.tps").notes
    assert (
        sum("which is not a number above 0: correct it. There are 13 more like it." in one for one in notes)
        == 1
    )


@pytest.mark.parametrize("more", [(), ("--json",), ("--quiet",)])
def test_one_scale_that_is_missing_needs_attention_if_scales_were_asked_for(wings, command, more):
    spoilt("gap.tps", "face3.png", "")
    words = ("morphometrics", "gap.tps", "-o", "shapes", "--overwrite", *more)
    command(*words)
    command(*words, "--unit", "mm", code=3)
    command(*words, "--unit", "mm", "--scale", "0.1")
    words = ("convert", "gap.tps", "gap.csv", "--images", "photos", "--overwrite", *more)
    command(*words)
    command(*words, "--scale", "0.1")
    Path("one.csv").write_text("image,scale\nface2.png,0.5\n")
    said = command(*words, "--scale", "one.csv", code=3)
    assert "No scale: 1 object of 14, such as photos/face3.png, which --scale one.csv does not name." in (
        said.out + said.err
    )
    command(*words, "--scale", "one.csv", "--dry-run", code=3)
    Path("one.csv").write_text("image,scale\nface3.png,0.5\n")
    command(*words, "--scale", "one.csv")


def test_a_format_that_holds_no_scale_needs_attention_if_one_was_asked_for(wings, command):
    words = ("convert", "wings.tps", "points", "--to", "pts", "--images", "photos", "--overwrite")
    assert "the length of a pixel" in command(*words).err
    assert "the length of a pixel" in command(*words, "--scale", "0.1", code=3).err
