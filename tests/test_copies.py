"""Copies of one image stay on one side of a split."""

import shutil

import numpy as np
import pytest
from PIL import Image as PIL

import pliant
from pliant.data.copies import first_of_copies
from pliant.data.dataset import Dataset, Sample, dataset_from_arrays
from pliant.data.formats import write_landmarks


@pytest.fixture
def folder(tmp_path, rng):
    """Ten images of one size in bytes, and copies of the first three under other names."""
    for number in range(10):
        PIL.fromarray(rng.integers(0, 256, (20, 20), dtype=np.uint8)).save(tmp_path / f"{number}.bmp")
        write_landmarks(tmp_path / f"{number}.pts", rng.uniform(2, 18, (5, 2)))
    for number in range(3):
        for copy in "abc":
            for ending in ("bmp", "pts"):
                shutil.copy(tmp_path / f"{number}.{ending}", tmp_path / f"copy-{number}{copy}.{ending}")
    return tmp_path


def contents(dataset):
    return {sample.image().tobytes() for sample in dataset}


class TestCopies:
    def test_of_files_are_found(self, folder):
        samples = pliant.load_dataset(folder)
        first = first_of_copies(samples)
        for number, sample in enumerate(samples):
            assert contents([sample]) == contents([samples[first[number]]])
        assert len(set(first)) == 10

    @pytest.mark.parametrize("seed", range(5))
    def test_no_image_is_on_both_sides(self, folder, seed):
        dataset = pliant.load_dataset(folder)
        rest, held = dataset.split(0.3, seed)
        assert not contents(rest) & contents(held)
        assert len(rest) + len(held) == 19
        folds = dataset.folds(3, seed)
        assert sorted(len(held) for _, held in folds) == [6, 6, 7]
        assert all(not contents(rest) & contents(held) for rest, held in folds)

    def test_at_addresses(self, folder):
        import fsspec

        system = fsspec.filesystem("memory")
        for file in folder.iterdir():
            system.pipe_file(f"/copies/{file.name}", file.read_bytes())
        rest, held = pliant.load_dataset("memory://copies").split(0.3)
        assert not contents(rest) & contents(held)
        system.rm("/copies", recursive=True)

    @pytest.mark.parametrize("seed", range(5))
    def test_in_memory(self, rng, seed):
        images = [rng.integers(0, 256, (8, 8), dtype=np.uint8) for _ in range(6)]
        twice = dataset_from_arrays([*images, *(image.copy() for image in images)], np.zeros((12, 3, 2)))
        rest, held = twice.split(0.5, seed)
        assert not contents(rest) & contents(held)

    @pytest.mark.parametrize("seed", range(5))
    def test_objects_in_one_picture_and_its_copies(self, folder, seed):
        samples = [
            Sample(f"{name} {k}", folder / name, None) for name in ("0.bmp", "copy-0a.bmp") for k in range(3)
        ]
        samples += [Sample(str(k), folder / f"{k}.bmp", None) for k in range(1, 9)]
        rest, held = Dataset(tuple(samples), "pictures").split(0.4, seed)
        assert not contents(rest) & contents(held)

    def test_joins_groups(self, folder):
        """Two videos that share a frame are one."""
        samples = [Sample(f"a{k}", folder / f"{k}.bmp", None, group="a") for k in range(3)]
        samples += [Sample("b0", folder / "copy-0a.bmp", None, group="b")]
        samples += [Sample(f"b{k}", folder / f"{k}.bmp", None, group="b") for k in range(3, 6)]
        samples += [Sample(f"c{k}", folder / f"{k}.bmp", None, group="c") for k in range(6, 9)]
        for rest, held in Dataset(tuple(samples), "videos").folds(2):
            assert {sample.group for sample in held} in ({"a", "b"}, {"c"})
            assert not {sample.group for sample in rest} & {sample.group for sample in held}

    def test_without_copies_splits_are_as_they_were(self, folder):
        dataset = pliant.load_dataset(folder)[:10]
        names = [sample.name for sample in dataset.split(0.3, seed=4)[1]]
        drawn = np.random.default_rng(4).permutation(10)[:3]
        assert names == [dataset[number].name for number in sorted(drawn)]

    def test_what_cannot_be_read_is_no_copy(self, folder):
        (folder / "gone.bmp").unlink(missing_ok=True)
        samples = [Sample(f"{k}", folder / "no" / f"{k}.bmp", None) for k in range(3)]
        samples.append(Sample("made", lambda: pliant.read_image(folder / "no.bmp"), None))
        assert first_of_copies(samples) == [0, 1, 2, 3]

    def test_drawn_images_are_not_drawn_for_it(self, monkeypatch):
        monkeypatch.setattr("pliant.synthetic.dataset.face", None)
        assert first_of_copies(pliant.synthetic.faces(5)) == [0, 1, 2, 3, 4]


def test_hold_out_of_the_command(tmp_path, face_folders, command):
    """Each image twice: none is trained on and held out."""
    both = tmp_path / "both"
    shutil.copytree(face_folders / "train", both)
    for file in list(both.iterdir()):
        shutil.copy(file, both / f"again-{file.name}")
        if file.suffix == ".pts":
            # Landmarks of another annotator, so that the sample is no mere repetition.
            text = file.read_text().splitlines()
            (both / f"again-{file.name}").write_text("\n".join([*text[:3], "10 10", *text[4:]]))
    options = (
        "--size",
        40,
        "--no-confidence",
        "--detector",
        "none",
        "--hold-out",
        0.4,
        "--shape-modes",
        "1,2",
    )
    command("train", both, "-o", tmp_path / "m.pliant", *options)
    held = pliant.load_dataset(tmp_path / "m.held-out.csv")
    names = {sample.name.rsplit("/", 1)[-1].removeprefix("again-") for sample in held}
    assert len(held) == 2 * len(names)
