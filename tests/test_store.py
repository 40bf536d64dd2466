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
from pliant import consistency
from pliant.appearance import features
from pliant.container import ModelFileError
from pliant.model import load
from pliant.shape.pdm import similarity_vectors

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


def test_arrays_are_closed_for_writing(file):
    components = load(file).levels[0].appearance.components
    with pytest.raises(ValueError, match="read-only"):
        components[0, 0] = 1


def test_a_loaded_model_does_not_mind_what_becomes_of_its_file(model, file):
    """Arrays that are mapped end the process when the file is cut off below them."""
    loaded = load(file)
    os.truncate(file, 0)
    for one, other in zip(arrays_of(model), arrays_of(loaded), strict=True):
        assert_array_equal(one, other)


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
    # It is older than turned views, and what is trained like it has none either.
    assert not any(level.upright for level in model.levels)
    assert not model.settings.upright
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
            model=header["__metadata__"]["model"].replace("36.0", "37.0")
        ),
    )
    with pytest.raises(ModelFileError, match="checksum does not match"):
        load(file)


def test_appended_bytes_are_noticed(file):
    with open(file, "ab") as opened:
        opened.write(b"extra")
    with pytest.raises(ModelFileError, match="extra bytes after the model"):
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
    with pytest.raises(ModelFileError, match="has format 2, but this pliant reads formats up to 1"):
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


def crafted(model, change, file, monkeypatch) -> None:
    """Save a model with arrays and numbers that were changed, and with the checksum that belongs to them."""
    taken_apart = pliant.store._taken_apart

    def changed(model):
        arrays, numbers = taken_apart(model)
        arrays = {name: array.copy() for name, array in arrays.items()}
        numbers = json.loads(json.dumps(numbers))
        change(arrays, numbers)
        return arrays, numbers

    with monkeypatch.context() as patch:
        patch.setattr(pliant.store, "_taken_apart", changed)
        model.save(file)


def array_change(name, place, value):
    def change(arrays, numbers):
        arrays[name][place] = value

    return change


def number_change(*way_and_value):
    def change(arrays, numbers):
        *way, last, value = way_and_value
        for key in way:
            numbers = numbers[key]
        numbers[last] = value

    return change


def with_other_landmarks(arrays, numbers):
    """The coarse level without the last landmark and its triangles: by itself, it is sound."""
    v = len(arrays["levels.0.frame.vertices"]) - 1
    first = arrays["levels.0.frame.first_pixel"]
    kept = ~np.any(arrays["levels.0.frame.triangles"] == v, axis=1)
    counts = np.diff(first)
    rows = np.repeat(kept, counts)
    arrays["levels.0.frame.vertices"] = arrays["levels.0.frame.vertices"][:v]
    arrays["levels.0.frame.triangles"] = arrays["levels.0.frame.triangles"][kept]
    arrays["levels.0.frame.pixels"] = arrays["levels.0.frame.pixels"][rows]
    arrays["levels.0.frame.first_pixel"] = np.append(0, np.cumsum(counts[kept])).astype(np.int32)
    mean = arrays["levels.0.frame.vertices"]
    arrays["levels.0.shape.basis"] = similarity_vectors(mean)
    arrays["levels.0.shape.eigenvalues"] = np.zeros(0)
    entries = np.repeat(rows, 8)
    arrays["levels.0.appearance.mean"] = arrays["levels.0.appearance.mean"][entries]
    arrays["levels.0.appearance.components"] = np.eye(1, entries.sum(), dtype=np.float32)
    arrays["levels.0.appearance.eigenvalues"] = arrays["levels.0.appearance.eigenvalues"][:1]
    del arrays["levels.0.appearance.basis_slopes"]


def with_flat_triangle(arrays, numbers):
    arrays["levels.1.frame.triangles"][3] = arrays["levels.1.frame.triangles"][3, 0]


def with_two_channels_of_texture(arrays, numbers):
    numbers["texture"]["channels"] = 2
    for name in ("mean", "components"):
        whole = arrays[f"texture.pca.{name}"]
        arrays[f"texture.pca.{name}"] = np.ascontiguousarray(whole[..., : whole.shape[-1] // 3 * 2])


def with_channels(arrays, numbers):
    """Eight times as many: 64 of the feature that has one of each pixel."""
    numbers["levels"][1].update(features="intensity", channels=64)
    for name in ("mean", "components"):
        arrays[f"levels.1.appearance.{name}"] = np.tile(arrays[f"levels.1.appearance.{name}"], 8)
    arrays["levels.1.appearance.components"] /= np.float32(np.sqrt(8))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (with_flat_triangle, "degenerate triangles|no triangle reaches"),
        (array_change("levels.1.frame.vertices", 3, 60000.0), "vertices are too far away"),
        (array_change("levels.1.frame.vertices", (3, 0), np.nan), "vertices that are not finite"),
        (array_change("levels.1.frame.vertices", 3, 5.0), "outside their triangles|degenerate"),
        (array_change("levels.1.frame.pixels", 7, 2), "outside their triangles"),
        (array_change("levels.1.frame.pixels", slice(1), 0), "outside their triangles"),
        (array_change("levels.0.appearance.mean", 5, np.inf), "mean of the appearance"),
        (array_change("levels.0.appearance.components", (0, 5), np.nan), "components of the appearance"),
        (array_change("levels.0.appearance.components", 0, 0.0), "components of the appearance"),
        (array_change("levels.0.appearance.eigenvalues", 0, -1.0), "variances of the appearance"),
        (array_change("levels.0.appearance.basis_slopes", (0, 0, 0), np.nan), "slopes of the basis"),
        (array_change("levels.0.shape.eigenvalues", 0, -1.0), "variances of the shape"),
        (array_change("levels.0.shape.basis", (0, 0), np.nan), "basis of shapes"),
        (array_change("levels.0.shape.basis", (0, 5), 1e300), "basis of shapes"),
        (array_change("texture.pca.mean", 0, np.nan), "mean of the texture"),
        (number_change("levels", 0, "scale", 0), "the scale 0"),
        (number_change("levels", 0, "scale", 1.5), "the scale 1.5"),
        (number_change("levels", 0, "scale", 1.0), "different sizes"),
        (number_change("levels", 0, "scale", "0.5"), "not a number"),
        (number_change("levels", 0, "shape", "total_variance", 1e12), "vary by more than their size"),
        (number_change("levels", 0, "appearance", "total_variance", -1), "total variance of the appearance"),
        (number_change("levels", 0, "appearance", "rank", 10**30), "rank of the appearance"),
        (number_change("levels", 0, "features", "a\x1b[31m"), "without a name"),
        (number_change("levels", 0, "features", "\ud800"), "half a character"),
        (number_change("levels", 0, "channels", 10**400), "has type float32 and shape"),
        (number_change("placements", 0, "x", "left"), "a placement has x 'left'"),
        (number_change("placements", 0, "size", 0), "has no samples"),
        (number_change("placements", 0, "spread_size", 1e300), "spread_size"),
        (number_change("placements", 0, "reference", 3), "a placement has reference 3"),
        (number_change("settings", []), "are not a table"),
        (number_change("confidence", {"fits": 3}), "KeyError"),
        (with_other_landmarks, "different numbers of landmarks"),
        (with_two_channels_of_texture, "texture has 2 channels"),
        (with_channels, "64 channels of the feature 'intensity', but the feature has 1"),
    ],
)
def test_what_training_could_not_have_made_is_refused(model, change, complaint, tmp_path, monkeypatch):
    """Each alone, with a right checksum, in a model that is sound otherwise."""
    crafted(model, change, tmp_path / "x.pliant", monkeypatch)
    with pytest.raises(ModelFileError, match=f"x.pliant: .* inconsistent .*({complaint})"):
        load(tmp_path / "x.pliant")


@pytest.mark.parametrize(
    "change",
    [
        number_change("confidence", "scale", [1, 1, 0, 1]),
        number_change("confidence", "bounds", [0.1] * 9),
        number_change("confidence", "factor", -1),
        number_change("confidence", "centre", [0, 0, 0]),
        number_change("confidence", "scatter", 0, [[-1, 0], [0, -1]]),
        number_change("confidence", "weights", [[1.0] * 3] * 9),
    ],
)
def test_a_confidence_that_nobody_has_learned_is_refused(calibrated, change, tmp_path, monkeypatch):
    crafted(calibrated, change, tmp_path / "x.pliant", monkeypatch)
    with pytest.raises(ModelFileError, match="confidence"):
        load(tmp_path / "x.pliant")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{}", "[]", "3", '{"levels": NaN}', '"\\ud800"', "1" * 5000, ""]
)
def test_numbers_that_are_no_model_are_refused(model, text, tmp_path, monkeypatch):
    """With a right checksum: RecursionError, OverflowError and the like do not leave `load`."""
    dumps = json.dumps
    monkeypatch.setattr(
        json, "dumps", lambda value, **options: text if "levels" in value else dumps(value, **options)
    )
    model.save(tmp_path / "x.pliant")
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match="x.pliant: .*inconsistent"):
        load(tmp_path / "x.pliant")


@pytest.mark.parametrize("checksum", ["\ud800" * 64, "é" * 64, 64, None, "0" * 63])
def test_a_checksum_that_is_none_is_refused(file, checksum):
    def change(header):
        header["__metadata__"]["checksum"] = checksum
        header["__metadata__"]["model"] = header["__metadata__"]["model"][:-1000]

    edit_header(file, change)
    with pytest.raises(ModelFileError, match="checksum is damaged"):
        load(file)


def test_what_is_no_file_gets_a_sentence(tmp_path):
    """A pipe would wait for ever, and a link may lead to itself."""
    os.mkfifo(tmp_path / "pipe.pliant")
    with pytest.raises(ModelFileError, match="this is a pipe"):
        load(tmp_path / "pipe.pliant")
    (tmp_path / "loop.pliant").symlink_to(tmp_path / "loop.pliant")
    with pytest.raises(ModelFileError, match="broken or circular"):
        load(tmp_path / "loop.pliant")


def test_features_of_ones_own_load_before_they_are_known(model, dataset, tmp_path, monkeypatch):
    def renamed(arrays, numbers):
        for level in numbers["levels"]:
            level["features"] = "my-own"

    crafted(model, renamed, tmp_path / "x.pliant", monkeypatch)
    loaded = load(tmp_path / "x.pliant")
    with pytest.raises(ValueError, match="no feature 'my-own'"):
        pliant.fit(loaded, [dataset[0]], [dataset[0].points()])
    monkeypatch.setattr(features, "_REGISTRY", dict(features._REGISTRY))
    pliant.register_feature("my-own", channels=2, reach=0)(lambda grey: np.stack([grey, grey], axis=-1))
    with pytest.raises(ValueError, match="8 channels of the feature 'my-own', but the feature has 2"):
        pliant.fit(loaded, [dataset[0]], [dataset[0].points()])
    with pytest.raises(ModelFileError, match="8 channels of the feature 'my-own', but the feature has 2"):
        load(tmp_path / "x.pliant")


def test_channels_of_own_features_are_known_without_importing_them():
    assert {
        name: features.find_feature(name).channels for name in consistency._CHANNELS
    } == consistency._CHANNELS
    assert {"intensity", "normalized", "gradient", "igo", "dsift"} == consistency._CHANNELS.keys()


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
