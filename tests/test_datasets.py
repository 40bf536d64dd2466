"""Sources of many kinds, and splits that leave groups whole."""

import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image as PIL

from pliant.data.annotation import Annotation
from pliant.data.dataset import Dataset, Sample
from pliant.data.formats import read_annotations, write_annotations, write_landmarks
from pliant.data.images import ImageError, read_image
from pliant.data.loading import load_dataset
from pliant.data.sources import find_images
from pliant.data.validation import validate

POINTS = np.array([[10.0, 12], [50, 14], [52, 60], [8, 58], [30, 34]])


def write_image(path, grey: int = 100) -> None:
    path.parent.mkdir(exist_ok=True)
    PIL.new("L", (70, 70), grey).save(path)


@pytest.fixture
def folder(tmp_path):
    """Three images, two of them with landmarks."""
    for number, name in enumerate("abc"):
        write_image(tmp_path / "faces" / f"{name}.png", 10 * number)
    for number, name in enumerate("ab"):
        write_landmarks(tmp_path / "faces" / f"{name}.pts", POINTS + number)
    return tmp_path / "faces"


class TestAnnotationFiles:
    @pytest.fixture
    def table(self, folder, table_format):
        path = folder.parent / "all.tab"
        write_annotations(path, [Annotation(f"{name}.png", POINTS) for name in ("a", "b", "b", "lost")])
        return path

    def test_images_are_looked_for_where_they_are_said_to_be(self, table, folder):
        dataset = load_dataset(table, images=folder)
        assert_allclose(dataset[1].points(), POINTS)
        assert dataset[1].image()[0, 0] == 10
        names = [sample.name.rsplit("/", 1)[-1] for sample in dataset]
        assert names == ["a.png", "b.png", "b.png, object 2", "lost.png"]

    def test_an_image_that_is_not_there_is_reported_when_it_is_needed(self, table, folder):
        dataset = load_dataset(table, images=folder)
        assert_allclose(dataset[3].points(), POINTS)
        with pytest.raises(ImageError, match="all.tab: the image lost.png is not in .* or next to this file"):
            dataset[3].image()
        assert any("lost.png is not in" in problem for problem in validate(dataset).problems)

    def test_a_folder_has_one_for_all_its_images(self, table, folder):
        for path in folder.glob("*.pts"):
            path.unlink()
        table.rename(folder / "all.tab")
        assert len(load_dataset(folder)) == 4
        (folder / "more.tab").write_bytes((folder / "all.tab").read_bytes())
        with pytest.raises(
            ValueError, match="all.tab, more.tab could each hold the landmarks of this folder"
        ):
            load_dataset(folder)

    def test_landmarks_beside_images_come_first(self, table, folder):
        table.rename(folder / "all.tab")
        assert len(load_dataset(folder)) == 3

    def test_several_sources_are_one_data_set(self, table, folder):
        dataset = load_dataset(folder, table, images=folder)
        assert len(dataset) == 7
        assert dataset.source.endswith("/faces, " + "/".join(table.parts[-2:]))

    def test_the_format_can_be_named(self, folder):
        assert_allclose(load_dataset(folder, format="pts:0-based")[0].points(), POINTS + 1)

    def test_what_is_no_source_gets_a_sentence(self, folder):
        with pytest.raises(ValueError, match="nowhere: there is no such folder or file"):
            load_dataset(folder / "nowhere")
        with pytest.raises(ValueError, match="a.png: this is an image: give its folder"):
            load_dataset(folder / "a.png")


class TestManifests:
    def test_all_columns(self, folder):
        manifest = folder.parent / "all.csv"
        manifest.write_text(
            "Image,landmarks,group,split,left,top,right,bottom,age\n"
            "faces/a.png,faces/b.pts,anna,train,1,2,30,40.5,7\n"
            f"{folder}/b.png,,,test,,,,,\n"
        )
        one, two = load_dataset(manifest)
        assert (one.group, one.split) == ("anna", "train")
        assert_allclose(one.points(), POINTS + 1)
        assert_allclose(one.box, [1, 2, 30, 40.5])
        assert one.annotation().group == "anna"
        assert (two.group, two.split, two.box, two.points_source) == ("", "test", None, None)
        assert two.image()[0, 0] == 10
        assert [sample.name for sample in load_dataset(manifest).part("test")] == [f"{folder}/b.png"]
        with pytest.raises(ValueError, match="no sample is in the part 'valid'. Its parts are test, train"):
            load_dataset(manifest).part("valid")

    def test_without_the_column_landmarks_lie_beside_images(self, folder):
        (folder.parent / "all.csv").write_text("image,group\nfaces/a.png,x\nfaces/c.png,y\n")
        one, two = load_dataset(folder.parent / "all.csv")
        assert_allclose(one.points(), POINTS)
        assert two.points_source is None

    def test_parquet_says_the_same(self, folder):
        import pyarrow
        import pyarrow.parquet

        table = pyarrow.table(
            {
                "image": ["faces/a.png", "faces/b.png"],
                "split": ["train", None],
                "left": [1, None],
                "top": [2, None],
                "right": [3, None],
                "bottom": [4, None],
            }
        )
        pyarrow.parquet.write_table(table, folder.parent / "all.parquet")
        one, two = load_dataset(folder.parent / "all.parquet")
        assert (one.split, two.split) == ("train", "")
        assert_allclose(one.box, [1, 2, 3, 4])
        assert_allclose(two.points(), POINTS + 1)

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            (
                "image,left,top,right,bottom\na.png,1,2,3,x\n",
                "line 2: left, top, .* must be four numbers",
            ),
            ("image,left,top,right,bottom\na.png,1,2,3,\n", "must be four numbers"),
            ("image,group\n,x\n", "line 2: there is no image"),
        ],
    )
    def test_damage_gets_a_sentence(self, tmp_path, text, sentence):
        (tmp_path / "all.csv").write_text(text)
        with pytest.raises(ValueError, match=f"all.csv, .*{sentence}"):
            load_dataset(tmp_path / "all.csv")

    def test_a_table_of_coordinates_is_none(self, folder):
        from pliant.data.manifest import read_manifest

        (folder / "wide.csv").write_text("image,x0,y0\na.png,1,2\n")
        assert read_manifest(folder / "wide.csv") is None


class TestOneFileForEachImage:
    """Formats that can hold many images, and plain text, called like the image that they are about."""

    @pytest.fixture
    def images(self, tmp_path):
        for name in "abc":
            write_image(tmp_path / f"{name}.png")
        return tmp_path

    @pytest.mark.parametrize("ending", [".tps", ".json", ".xml", ".csv", ".fcsv", ".npz"])
    def test_a_folder_of_them_is_loaded(self, ending, images):
        for number, name in enumerate("ab"):
            one = Annotation(f"{name}.png", POINTS + number, size=(70, 70))
            write_annotations(images / f"{name}{ending}", [one])
        samples = {sample.name[-5]: sample for sample in load_dataset(images)}
        assert_allclose(samples["b"].points(), POINTS + 1, atol=0.51)
        assert samples["c"].points_source is None
        assert len(samples) == 3

    def test_images_may_be_elsewhere(self, images):
        (images / "labels").mkdir()
        for name in "ab":
            write_annotations(
                images / "labels" / f"{name}.tps", [Annotation(f"{name}.png", POINTS, size=(70, 70))]
            )
        first, second = load_dataset(images / "labels", images=images)
        assert (first.image().shape, second.image().shape) == ((70, 70), (70, 70))

    def test_a_specimen_without_a_name_is_of_the_image_beside_it(self, images):
        for name in "ab":
            (images / f"{name}.tps").write_text("LM=3\n1 70\n2 69\n3 60\nID=0\n")
        (first, *_) = load_dataset(images)
        assert_allclose(first.points(), [[1, 0], [2, 1], [3, 10]])

    def test_several_lists_of_all_images_are_not_guessed_at(self, images):
        for name in ("train", "test"):
            write_annotations(images / f"{name}.csv", [Annotation("a.png", POINTS)])
        with pytest.raises(ValueError, match=r"test.csv, train.csv could each hold"):
            load_dataset(images)

    @pytest.mark.parametrize(
        "text", ["10 20\n30 20\n20 40\n", "# x, y\n10, 20\n30;20\n\n20\t40", "10\n20\n30\n20\n20\n40\n"]
    )
    def test_plain_text(self, text, images):
        for name in "abc":
            (images / f"{name}.txt").write_text(text)
        (images / "readme.txt").write_text("hello")
        samples = load_dataset(images)
        assert len(samples) == 3
        assert_allclose(samples[0].points(), [[10, 20], [30, 20], [20, 40]])
        assert len(load_dataset(str(images / "[abc]*"))) == 3
        turned = load_dataset(images, format="txt:bottom-left")
        assert_allclose(turned[0].points(), [[10, 50], [30, 50], [20, 30]])

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("1 2\n3\n4 5\n", "line 1: expected two"),
            ("1 2 3\n", "line 1: expected two"),
            ("1\n2\n3\n", "3 numbers do not form pairs"),
        ],
    )
    def test_other_text_gets_a_sentence(self, text, sentence, tmp_path):
        (tmp_path / "a.txt").write_text(text)
        with pytest.raises(ValueError, match=f"a.txt.*{sentence}"):
            read_annotations(tmp_path / "a.txt", "txt")

    def test_a_list_in_the_manner_of_wflw_is_no_landmark_file(self, images):
        write_annotations(images / "list.txt", [Annotation("a.png", POINTS)])
        (sample,) = load_dataset(images)
        assert_allclose(sample.points(), POINTS)

    @pytest.mark.parametrize("name", ["csv", "csv-long"])
    def test_tables_with_y_upwards(self, name, images):
        path = images / "all.csv"
        write_annotations(path, [Annotation("a.png", POINTS, size=(70, 70))], f"{name}:bottom-left")
        assert ",50" in path.read_text()
        (sample,) = load_dataset(path, format=f"{name}:bottom-left")
        assert_allclose(sample.points(), POINTS)


class TestAddresses:
    @pytest.fixture
    def archive(self, folder):
        path = folder.parent / "faces.zip"
        with zipfile.ZipFile(path, "w") as file:
            for member in folder.iterdir():
                file.write(member, f"inner/{member.name}")
        return path

    def test_a_folder_in_an_archive_is_a_folder(self, archive, folder):
        here, there = load_dataset(folder), load_dataset(f"zip://inner::{archive}")
        assert [sample.name for sample in there] == [f"zip://inner/{name}.png::{archive}" for name in "abc"]
        for one, other in zip(here, there, strict=True):
            assert_array_equal(one.image(), other.image())
        assert_allclose(there[1].points(), POINTS + 1)
        assert validate(there[:2], jobs=2).problems == ()

    def test_nothing_is_copied_to_disk(self, archive, monkeypatch, tmp_path):
        dataset = load_dataset(f"zip://inner::{archive}")
        monkeypatch.setattr("tempfile.mkdtemp", lambda *a, **k: pytest.fail("an image was copied"))
        assert dataset[0].image().shape == (70, 70)

    def test_annotation_files_and_manifests(self, folder, table_format, tmp_path):
        import fsspec

        memory = fsspec.filesystem("memory")
        write_annotations(
            tmp_path / "all.tab", [Annotation("sub\\a.png", POINTS), Annotation("no.png", POINTS)]
        )
        memory.pipe("/set/all.tab", (tmp_path / "all.tab").read_bytes())
        memory.pipe("/set/sub/a.png", (folder / "a.png").read_bytes())
        memory.pipe("/set/all.csv", b"image,group\nsub/a.png,x\n")
        try:
            one, lost = load_dataset("memory://set/all.tab")
            assert_allclose(one.points(), POINTS)
            assert one.name == "memory://set/sub/a.png"
            assert one.image().shape == (70, 70)
            with pytest.raises(
                ImageError, match="memory://set/all.tab: the image no.png is not in memory://set"
            ):
                lost.image()
            (row,) = load_dataset("memory://set/all.csv")
            assert row.group == "x"
            assert row.image().shape == (70, 70)
            (found,) = find_images(["memory://set/**/*.png"])
            assert read_image(found).shape == (70, 70)
        finally:
            memory.rm("/set", recursive=True)

    def test_images_are_found_by_pattern_and_folder(self, archive):
        names = [f"zip://inner/{name}.png::{archive}" for name in "abc"]
        assert find_images([f"zip://inner::{archive}"]) == names
        assert find_images([f"zip://inner/[ab].png::{archive}", names[0], names[2]]) == names
        with pytest.raises(ValueError, match="no such image or folder, and no image matches that pattern"):
            find_images([f"zip://inner/*.jpg::{archive}"])

    def test_what_cannot_be_reached_gets_a_sentence(self, archive, monkeypatch):
        from fsspec.registry import _registry

        monkeypatch.setitem(sys.modules, "s3fs", None)
        # Another test may have used it by now.
        monkeypatch.delitem(_registry, "s3", raising=False)
        with pytest.raises(ValueError, match=r"s3:// needs a library .* pip install 'pliant\[s3\]'"):
            load_dataset("s3://bucket/faces")
        with pytest.raises(OSError, match="nothing://x: this address cannot be read"):
            load_dataset("nothing://x")
        with pytest.raises(ValueError, match="there is no such folder or file"):
            load_dataset(f"zip://outer::{archive}")
        with pytest.raises(ValueError, match="there is no .*other.zip"):
            load_dataset("zip://inner::other.zip")
        with pytest.raises(ImageError, match="there is no such image"):
            read_image(f"zip://inner/d.png::{archive}")

    def test_paths_do_without_fsspec(self, folder):
        code = f"""
import sys
sys.modules["fsspec"] = None
import pliant
print(pliant.load_dataset({str(folder)!r})[0].image().shape)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout.strip() == "(70, 70)", done.stderr


def samples_in_groups(groups: list[str]) -> Dataset:
    samples = [
        Sample(f"{number}", lambda number=number: np.full((3, 3), number), None, group)
        for number, group in enumerate(groups)
    ]
    return Dataset(tuple(samples), "test")


GROUPS = st.lists(st.sampled_from(["", "", "a", "b", "c", "d"]), min_size=2, max_size=60)


def whole_groups(groups: list[str]) -> Counter:
    return Counter(group or f"single {number}" for number, group in enumerate(groups))


class TestSplits:
    @given(GROUPS, st.floats(0.05, 0.95), st.integers(0, 99))
    def test_a_split_tears_no_group_apart_and_loses_nothing(self, groups, share, seed):
        dataset, sizes = samples_in_groups(groups), whole_groups(groups)
        if len(sizes) < 2:
            with pytest.raises(ValueError, match="2 parts need at least 2 groups, but there are 1"):
                dataset.split(share, seed)
            return
        rest, held = dataset.split(share, seed)
        assert sorted(int(sample.name) for sample in (*rest, *held)) == list(range(len(groups)))
        assert not {s.group for s in rest} & {s.group for s in held} - {""}
        assert len(rest)
        assert len(held)
        assert abs(len(held) - share * len(groups)) <= max(sizes.values())
        again = dataset.split(share, seed)
        assert [s.name for s in again[1]] == [s.name for s in held]

    @given(st.integers(2, 200), st.floats(0.05, 0.95))
    def test_without_groups_the_share_is_what_was_asked_for(self, count, share):
        rest, held = samples_in_groups([""] * count).split(share)
        assert abs(len(held) - share * count) <= 1
        assert len(rest) + len(held) == count

    @given(GROUPS, st.integers(2, 5), st.integers(0, 99))
    def test_folds_hold_out_each_sample_once(self, groups, count, seed):
        dataset, sizes = samples_in_groups(groups), whole_groups(groups)
        if len(sizes) < count:
            with pytest.raises(ValueError, match="parts need at least"):
                dataset.folds(count, seed)
            return
        folds = dataset.folds(count, seed)
        assert sorted(int(s.name) for _, held in folds for s in held) == list(range(len(groups)))
        for rest, held in folds:
            assert len(rest) + len(held) == len(groups)
            assert not {s.group for s in rest} & {s.group for s in held} - {""}
        lengths = [len(held) for _, held in folds]
        assert max(lengths) - min(lengths) <= max(sizes.values())
        assert min(lengths) > 0

    def test_another_seed_draws_others(self):
        dataset = samples_in_groups([""] * 50)
        held = {tuple(sample.name for sample in dataset.split(0.3, seed)[1]) for seed in range(5)}
        assert len(held) == 5

    def test_groups_come_from_names(self):
        dataset = Dataset(tuple(Sample(f"p{k // 3}_{k}.jpg", lambda: 0, None) for k in range(9)), "test")
        assert [s.group for s in dataset.grouped(r"(p\d+)_")] == ["p0"] * 3 + ["p1"] * 3 + ["p2"] * 3
        assert dataset.grouped(r"p\d")[8].group == "p2"
        with pytest.raises(ValueError, match=r"p0_0.jpg: the group pattern 'q\(\.\)' does not match"):
            dataset.grouped("q(.)")

    @pytest.mark.parametrize("share", [0, 1, -0.5])
    def test_shares_without_meaning_get_a_sentence(self, share):
        with pytest.raises(ValueError, match="between 0 and 1"):
            samples_in_groups(["", ""]).split(share)


class TestPatterns:
    def test_images_come_with_their_landmarks(self, folder):
        found = load_dataset(str(folder / "[ab].png"))
        assert [sample.name for sample in found] == [str(folder / "a.png"), str(folder / "b.png")]
        assert_allclose(found[1].points(), POINTS + 1)
        assert [sample.name for sample in load_dataset(str(folder / "*"))] == [
            str(folder / f"{name}.png") for name in "abc"
        ]

    def test_folders_and_files_do_too(self, folder, table_format):
        write_image(folder.parent / "more" / "d.png")
        table = folder.parent / "more.tab"
        write_annotations(table, [Annotation("d.png", POINTS)])
        both = load_dataset(str(folder.parent / "[fm]*"), images=folder.parent / "more")
        assert Counter(sample.name.rsplit("/", 1)[-1] for sample in both) == Counter(
            ["a.png", "b.png", "c.png", "d.png", "d.png"]
        )

    def test_what_matches_nothing_gets_a_sentence(self, folder):
        with pytest.raises(ValueError, match=r"x\*.png: there is no such folder or file"):
            load_dataset(str(folder / "x*.png"))


class TestResultsInTheFolder:
    """Files that pliant wrote beside the images are not taken for their annotation file."""

    @pytest.fixture
    def work(self, face_folders, tmp_path, monkeypatch):
        """Images with `labels.json` in the working folder."""
        monkeypatch.chdir(tmp_path)
        annotations = []
        for sample in load_dataset(face_folders / "train"):
            shutil.copy(sample.image_source, tmp_path)
            annotations.append(replace(sample.annotation(), image=Path(sample.name).name))
        write_annotations("labels.json", annotations)
        return annotations

    def test_the_list_of_held_out_samples(self, work, command):
        words = ("--hold-out", "0.2", "--preset", "quick", "--no-confidence", "-o", "m.pliant")
        command("train", ".", *words)
        assert Path("m.held-out.csv").is_file()
        assert len(load_dataset(".")) == 14
        assert "would train on 14 annotated images" in command("train", ".", "--dry-run").out
        Path("labels.json").unlink()
        # It is an annotation file too, but nobody means it unless they name it.
        assert all(sample.points_source is None for sample in load_dataset("."))

    def test_tables_of_fits(self, work, model, command):
        model.save("m.pliant")
        command("fit", "m.pliant", ".", "-o", "fits", "--csv")
        command("evaluate", "m.pliant", ".", "-o", "errors.parquet")
        shutil.copy("fits/fits.csv", "found.csv")
        assert len(load_dataset(".")) == 14
        np.testing.assert_allclose(load_dataset(".")[0].points(), work[0].points, atol=0.01)
        assert load_dataset("fits", images=".")[0].points_source.points.shape == work[0].points.shape
