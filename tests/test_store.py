"""Model files: what goes in comes out, and what was damaged is refused with a sentence."""

import dataclasses
import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from safetensors import safe_open

import pliant
import pliant.store
from pliant.store import ModelFileError, load

GOLDEN = Path(__file__).parent / "golden" / "v1.pliant"


@pytest.fixture
def file(model, tmp_path):
    model.save(tmp_path / "faces.pliant")
    return tmp_path / "faces.pliant"


def arrays_of(model):
    for level in model.levels:
        yield from (level.shape.mean, level.shape.basis, level.shape.eigenvalues)
        yield from (level.appearance.mean, level.appearance.components, level.appearance.eigenvalues)
        frame = level.motion.frame
        yield from (frame.vertices, frame.triangles, frame.pixels, frame.first_pixel, level.basis_slopes)
    yield from (model.texture.pca.mean, model.texture.pca.components, model.texture.frame.pixels)


def edit_header(file: Path, change) -> None:
    """Rewrite the header's JSON in place, padded to the length that it had."""
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    assert len(text) <= length
    file.write_bytes(content[:8] + text.ljust(length) + content[8 + length :])


def test_a_model_comes_back_as_it_was(model, file):
    loaded = load(file)
    for one, other in zip(arrays_of(model), arrays_of(loaded), strict=True):
        assert one.dtype == other.dtype
        assert_array_equal(one, other)
    assert loaded.settings == model.settings
    assert loaded.provenance == model.provenance
    assert loaded.levels[-1].shape.noise_variance == model.levels[-1].shape.noise_variance
    assert loaded.levels[-1].appearance.noise_variance == model.levels[-1].appearance.noise_variance
    assert_array_equal(loaded.draw([1.0])[0], model.draw([1.0])[0])


def test_saving_what_was_loaded_gives_the_same_file(file, tmp_path):
    load(file).save(tmp_path / "again.pliant")
    assert (tmp_path / "again.pliant").read_bytes() == file.read_bytes()


def test_a_file_without_slopes_of_the_basis_fits_just_the_same(model, dataset, tmp_path):
    bare = dataclasses.replace(model, levels=tuple(dataclasses.replace(level) for level in model.levels))
    bare.save(tmp_path / "bare.pliant")
    loaded = load(tmp_path / "bare.pliant")
    assert all(level.basis_slopes is None for level in loaded.levels)
    starts = [sample.points() + 1 for sample in dataset[:2]]
    one, other = (pliant.fit(which, list(dataset[:2]), starts) for which in (model, loaded))
    for first, second in zip(one, other, strict=True):
        assert_allclose(first.points, second.points, atol=1e-9)


def test_arrays_are_mapped_and_closed_for_writing(file):
    loaded = load(file)
    components = loaded.levels[0].appearance.components
    assert not components.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        components[0, 0] = 1


def test_other_safetensors_readers_can_open_it(model, file):
    with safe_open(file, "numpy") as opened:
        assert opened.metadata()["format"] == "pliant"
        assert_array_equal(
            opened.get_tensor("levels.1.appearance.components"), model.levels[1].appearance.components
        )


def test_a_golden_file_of_the_first_version_loads():
    model = load(GOLDEN)
    assert model.landmarks == 68
    assert [level.scale for level in model.levels] == [0.5, 1.0]
    assert [level.motion.name for level in model.levels] == ["piecewise-affine"] * 2
    expected = json.loads(GOLDEN.with_suffix(".json").read_text())
    found = {
        "size": model.size,
        "shape_eigenvalues": model.levels[-1].shape.eigenvalues.tolist(),
        "appearance_eigenvalues": model.levels[-1].appearance.eigenvalues.tolist(),
        "appearance_mean_sum": float(model.levels[-1].appearance.mean.sum(dtype=np.float64)),
        "pixels": len(model.levels[-1].motion.frame.pixels),
        "drawn_mean": float(model.draw([1.0], [1.0])[0].mean(dtype=np.float64)),
    }
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, rel=1e-5), key


@pytest.mark.parametrize("share", [0.0, 0.00001, 0.001, 0.5, 0.999999])
def test_a_truncated_file_is_refused(file, share):
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ModelFileError, match="faces.pliant: .*(cut off|not a pliant model)"):
        load(file)


@pytest.mark.parametrize("place", [0.3, 0.7, 1.0])
def test_a_changed_byte_is_noticed(file, place):
    content = bytearray(file.read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")
    content[min(start + int(place * (len(content) - start)), len(content) - 1)] ^= 1
    file.write_bytes(content)
    with pytest.raises(ModelFileError, match="checksum does not match"):
        load(file)


def test_a_changed_setting_is_noticed(file):
    edit_header(
        file,
        lambda header: header["__metadata__"].update(
            model=header["__metadata__"]["model"].replace("0.75", "0.85")
        ),
    )
    with pytest.raises(ModelFileError, match="checksum does not match"):
        load(file)


def test_appended_bytes_are_noticed(file):
    with open(file, "ab") as opened:
        opened.write(b"extra")
    with pytest.raises(ModelFileError, match="bytes behind the model"):
        load(file)


@pytest.mark.parametrize("offsets", [[0, 10**15], [-8, 0], [10**15, 10**15 + 8], "all", [None, 1]])
def test_a_table_that_points_elsewhere_is_refused(file, offsets):
    def change(header):
        name = next(name for name in header if name != "__metadata__")
        header[name]["data_offsets"] = offsets
        header["__metadata__"]["model"] = header["__metadata__"]["model"][:-200]

    edit_header(file, change)
    with pytest.raises(ModelFileError, match="damaged|cut off"):
        load(file)


def test_a_newer_file_says_update(file):
    edit_header(file, lambda header: header["__metadata__"].update(format_version="2"))
    with pytest.raises(ModelFileError, match="has format 2, and this pliant reads up to 1"):
        load(file)


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"\x80\x04\x95" + b"pickled" * 20, b"PK\x03\x04" + bytes(500), bytes(500), b"\xff" * 500],
)
def test_a_foreign_file_is_refused(tmp_path, content):
    (tmp_path / "x.pliant").write_bytes(content)
    with pytest.raises(ModelFileError, match="not a pliant model"):
        load(tmp_path / "x.pliant")


def test_a_safetensors_file_that_is_no_model_is_refused(tmp_path):
    from safetensors.numpy import save_file

    save_file({"x": np.zeros(3)}, tmp_path / "x.pliant")
    with pytest.raises(ModelFileError, match="not a pliant model"):
        load(tmp_path / "x.pliant")


def test_a_missing_file_and_a_folder_get_sentences(tmp_path):
    with pytest.raises(ModelFileError, match="no such file"):
        load(tmp_path / "none.pliant")
    with pytest.raises(ModelFileError, match="is a folder"):
        load(tmp_path)


def test_a_consistent_file_with_wrong_shapes_is_refused(model, tmp_path, monkeypatch):
    """Even with a right checksum: compiled code trusts what was loaded."""
    taken_apart = pliant.store._taken_apart

    def crossed(model):
        arrays, numbers = taken_apart(model)
        arrays["levels.0.frame.triangles"] = arrays["levels.0.frame.triangles"] + 1000
        return arrays, numbers

    monkeypatch.setattr(pliant.store, "_taken_apart", crossed)
    model.save(tmp_path / "x.pliant")
    with pytest.raises(ModelFileError, match="inconsistent .*point outside"):
        load(tmp_path / "x.pliant")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(model, file, monkeypatch):
    before = file.read_bytes()

    def full_disk(descriptor):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        model.save(file)
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == [file.name]


def test_files_get_the_usual_permissions(file):
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~mask


def test_a_missing_folder_gets_a_sentence(model, tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        model.save(tmp_path / "none" / "x.pliant")
