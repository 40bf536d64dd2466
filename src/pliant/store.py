"""Models taken apart into named arrays and plain values, as their files have them, and put together again."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from pliant.appearance.texture import Texture
from pliant.arrays import Float64, Int32
from pliant.consistency import checked_frame
from pliant.container import read_container, write_container
from pliant.experts.linear import LinearExpert
from pliant.experts.network import NetworkExpert, has_engine
from pliant.experts.sightings import Expert
from pliant.files import open_plain
from pliant.level import Level
from pliant.motion import MOTIONS, Frame, motion_of
from pliant.pca import PCA
from pliant.settings import Training
from pliant.shape import SIMILARITY, ShapeModel, shape_size
from pliant.starts.filters import DIRECTIONS, ObjectFilter
from pliant.starts.placement import Placement
from pliant.trust.confidence import Confidence

if TYPE_CHECKING:
    from pliant.model import Model


class Parts(TypedDict):
    """What a file says a model is made of; the model itself is built and checked by whoever reads it."""

    levels: tuple[Level, ...]
    texture: Texture
    settings: Training
    provenance: dict[str, Any]
    placements: tuple[Placement, ...]
    confidence: Confidence | None
    landmark_names: tuple[str, ...]
    object_filter: ObjectFilter | None
    expert: Expert | None
    expert_weight: float
    shape_noise: Float64 | None
    training_images: Int32 | None


EXPERTS: Mapping[str, type[LinearExpert] | type[NetworkExpert]] = {
    "linear": LinearExpert,
    "network": NetworkExpert,
}
"""The kinds of experts by the names that files have for them."""


class ExpertLeftOut(UserWarning):
    """Warns that a model has an expert that this build of pliant cannot use. The model fits without it.

    Examples
    --------
    If you need the expert, turn the warning into an error:

    >>> import pliant, warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", pliant.ExpertLeftOut)
    ...     model = pliant.load("faces.pliant")

    """


def save(model: Model, path: Path | str) -> None:
    """Write a model to a path or an address; on any error the file that was there before, or none, is left."""
    if isinstance(path, Path):
        write_container(path, *_taken_apart(model))
        return
    from pliant.data.addresses import written

    with written(path) as partial:
        write_container(partial, *_taken_apart(model))


def read(path: Path | str) -> Parts:
    """The parts of the model in a file, each checked by itself; call it where errors are `refused`."""
    with _opened(path) as file:
        content = read_container(path, file)
    return _put_together(*content)


def place_of(path: Path | str) -> Path | str:
    """As `data.addresses.as_source` has it, which needs more than NumPy, and a model is read with that alone."""
    return path if isinstance(path, str) and "://" in path else Path(path)


def _opened(path: Path | str) -> AbstractContextManager[BufferedReader]:
    if isinstance(path, Path):
        return open_plain(path)
    from pliant.data.addresses import opened

    return cast(AbstractContextManager[BufferedReader], opened(path))


def _taken_apart(model: Model) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    arrays: dict[str, NDArray[Any]] = {}

    def keep(prefix: str, **named: NDArray[Any]) -> None:
        arrays.update({f"{prefix}.{name}": array for name, array in named.items()})

    def keep_frame(prefix: str, frame: Frame) -> None:
        keep(
            prefix,
            vertices=frame.vertices,
            triangles=frame.triangles,
            pixels=frame.pixels,
            first_pixel=frame.first_pixel,
        )

    def keep_pca(prefix: str, pca: PCA) -> dict[str, Any]:
        keep(prefix, mean=pca.mean, components=pca.components, eigenvalues=pca.eigenvalues)
        return {"total_variance": pca.total_variance, "rank": pca.rank}

    levels = []
    for number, level in enumerate(model.levels):
        shape = level.shape
        keep_frame(f"levels.{number}.frame", level.motion.frame)
        keep(f"levels.{number}.shape", basis=shape.basis, eigenvalues=shape.eigenvalues)
        if level.basis_slopes is not None:
            keep(f"levels.{number}.appearance", basis_slopes=level.basis_slopes)
        if level.descents is not None:
            keep(f"levels.{number}", descents=level.descents)
        levels.append(
            {
                "scale": level.scale,
                "motion": level.motion.name,
                "features": level.features,
                "channels": level.channels,
                "colour": level.colour,
                "upright": level.upright,
                "shape": {"total_variance": shape.total_variance, "rank": shape.rank},
                "appearance": keep_pca(f"levels.{number}.appearance", level.appearance),
            }
        )
    keep_frame("texture.frame", model.texture.frame)
    texture = {"channels": model.texture.channels, "pca": keep_pca("texture.pca", model.texture.pca)}
    found = model.object_filter
    if found is not None:
        keep("object_filter", weights=found.weights, shape=found.shape)
    if model.expert is not None:
        keep("expert", **_stored(model.expert).arrays())
    if model.shape_noise is not None:
        keep("shape", noise=model.shape_noise)
    if model.training_images is not None:
        arrays["training_images"] = model.training_images
    return arrays, {
        "levels": levels,
        "texture": texture,
        "settings": model.settings.to_dict(),
        "provenance": dict(model.provenance),
        "placements": [asdict(placement) for placement in model.placements],
        "confidence": None if model.confidence is None else _plain(model.confidence),
        "landmark_names": list(model.landmark_names),
        "object_filter": None if found is None else {"offset": found.offset, "turn": found.turn},
        "expert": None if model.expert is None else _expert_numbers(model.expert, model.expert_weight),
    }


def _stored(expert: Expert) -> LinearExpert | NetworkExpert:
    if not isinstance(expert, (LinearExpert, NetworkExpert)):
        raise ValueError(f"an expert of the kind {type(expert).__name__} cannot be stored in a file.")
    return expert


def _expert_numbers(expert: Expert, weight: float) -> dict[str, Any]:
    stored = _stored(expert)
    kind = next(name for name, known in EXPERTS.items() if isinstance(stored, known))
    return {"kind": kind, "weight": weight, **stored.numbers()}


def _expert(
    arrays: Mapping[str, NDArray[Any]], plain: Mapping[str, Any] | None, landmarks: int
) -> tuple[Expert | None, float]:
    """The expert and what it counts for. One that cannot be used here is left out, with a warning."""
    if plain is None:
        return None, 1.0
    kind, weight = plain["kind"], _real(plain["weight"])
    if not 0 < weight < 1e6:
        raise ValueError(f"the weight of its expert is {weight:g}")
    if not isinstance(kind, str):
        raise ValueError(f"the kind of its expert is {kind!r:.40}")
    if kind not in EXPERTS:
        _leave_out(f"an expert of the kind '{kind!s:.40}', which this version of pliant does not know")
        return None, 1.0
    own = {
        name.removeprefix("expert."): array for name, array in arrays.items() if name.startswith("expert.")
    }
    expert = EXPERTS[kind].from_parts(own, plain)
    if expert.landmarks != landmarks:
        raise ValueError(f"its expert has {expert.landmarks} landmarks, but the model has {landmarks}")
    if isinstance(expert, NetworkExpert) and not has_engine():
        _leave_out("a network expert, but this OpenCV was built without the dnn module that runs it")
        return None, 1.0
    return expert, weight


def _leave_out(what: str) -> None:
    # From here to whoever has called `load`.
    warnings.warn(f"the model has {what}: it fits without its expert.", ExpertLeftOut, stacklevel=6)


def _shape_noise(arrays: Mapping[str, NDArray[Any]], shape: ShapeModel) -> Float64 | None:
    """How far landmarks lie from the model's shapes, where that was learned."""
    if "shape.noise" not in arrays:
        return None
    noise = _expect(arrays, "shape.noise", np.float64, shape.landmarks, 2, 2)
    if not np.all(np.abs(noise) <= shape_size(shape.mean) ** 2):
        raise ValueError("'shape.noise' is larger than the object")
    if not np.array_equal(noise, np.swapaxes(noise, 1, 2)) or not np.all(np.linalg.eigvalsh(noise) > -1e-6):
        raise ValueError("'shape.noise' has a matrix that is not a covariance")
    return noise


def _training_images(arrays: Mapping[str, NDArray[Any]]) -> Int32 | None:
    """What tells the training images apart; older files do not say."""
    return _expect(arrays, "training_images", np.int32, None, 2) if "training_images" in arrays else None


def _plain(confidence: Confidence) -> dict[str, Any]:
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in vars(confidence).items()
    }


def _confidence(plain: Mapping[str, Any] | None) -> Confidence | None:
    """What is stored since pliant can calibrate; older files have none."""
    if plain is None:
        return None
    return Confidence(
        fits=operator.index(plain["fits"]),
        factor=_real(plain["factor"]),
        object_weights=_learned(plain.get("object_weights")),
        expert_weights=_learned(plain.get("expert_weights")),
        usual_deviations=_learned(plain.get("usual_deviations")),
        **{
            name: np.asarray(plain[name], dtype=np.float64)
            for name in ("centre", "scale", "bounds", "weights", "offsets", "scatter")
        },
    )


def _learned(plain: object) -> Float64 | None:
    return None if plain is None else np.asarray(plain, dtype=np.float64)


def _put_together(arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> Parts:
    levels = tuple(_level(arrays, number, level) for number, level in enumerate(numbers["levels"]))
    if not levels:
        raise ValueError("it has no levels")
    drawn = checked_frame(_frame(arrays, "texture.frame", Frame))
    channels = operator.index(numbers["texture"]["channels"])
    pca = _pca(arrays, "texture.pca", len(drawn.pixels) * channels, numbers["texture"]["pca"])
    settings, provenance = numbers["settings"], numbers["provenance"]
    if not isinstance(settings, dict) or not isinstance(provenance, dict):
        raise ValueError("its settings or its provenance are not a table")
    landmarks = levels[-1].shape.landmarks
    expert, weight = _expert(arrays, numbers.get("expert"), landmarks)
    # Files of the first version may be older than placements, confidence, names, filters and experts.
    return {
        "levels": levels,
        "texture": Texture(drawn, channels, pca),
        # A setting of a later version does not keep a model from being used; older ones did not turn views.
        "settings": Training.from_dict({"upright": False, **settings}, ignore_unknown=True),
        "provenance": provenance,
        "placements": tuple(Placement(**placement) for placement in numbers.get("placements", ())),
        "confidence": _confidence(numbers.get("confidence")),
        "landmark_names": _landmark_names(numbers.get("landmark_names", []), landmarks),
        "object_filter": _object_filter(arrays, numbers.get("object_filter"), landmarks),
        "expert": expert,
        "expert_weight": weight,
        "shape_noise": _shape_noise(arrays, levels[-1].shape),
        "training_images": _training_images(arrays),
    }


def _level(arrays: Mapping[str, NDArray[Any]], number: int, level: Mapping[str, Any]) -> Level:
    prefix = f"levels.{number}"
    mesh = checked_frame(_frame(arrays, f"{prefix}.frame", MOTIONS[level["motion"]]))
    eigenvalues = _expect(arrays, f"{prefix}.shape.eigenvalues", np.float64, None)
    parameters = SIMILARITY + len(eigenvalues)
    shape = ShapeModel(
        mean=mesh.vertices,
        basis=_expect(arrays, f"{prefix}.shape.basis", np.float64, 2 * len(mesh.vertices), parameters),
        eigenvalues=eigenvalues,
        total_variance=_real(level["shape"]["total_variance"]),
        rank=operator.index(level["shape"]["rank"]),
    )
    channels = operator.index(level["channels"])
    appearance = _pca(arrays, f"{prefix}.appearance", len(mesh.pixels) * channels, level["appearance"])
    motion = motion_of(level["motion"], mesh)
    # Files that are older than colour and turned views have neither.
    colour, upright = _flag(level, "colour"), _flag(level, "upright")
    whole = Level(
        _real(level["scale"]), shape, motion, level["features"], channels, appearance, colour, upright
    )
    slopes, m = f"{prefix}.appearance.basis_slopes", appearance.modes
    if slopes in arrays:
        whole = whole.with_basis_slopes(_expect(arrays, slopes, np.float32, m, parameters, m))
    if f"{prefix}.descents" in arrays:
        whole = whole.with_descents(
            _expect(arrays, f"{prefix}.descents", np.float32, None, parameters, len(appearance.mean))
        )
    return whole


def _object_filter(
    arrays: Mapping[str, NDArray[Any]], plain: Mapping[str, Any] | None, landmarks: int
) -> ObjectFilter | None:
    """What is stored since there is such a filter; older files have none."""
    if plain is None:
        return None
    return ObjectFilter(
        weights=_expect(arrays, "object_filter.weights", np.float32, DIRECTIONS, None, None),
        offset=_real(plain["offset"]),
        shape=_expect(arrays, "object_filter.shape", np.float64, landmarks, 2),
        turn=_real(plain["turn"]),
    )


def _frame(arrays: Mapping[str, NDArray[Any]], prefix: str, kind: type[Frame]) -> Frame:
    return kind(
        vertices=_expect(arrays, f"{prefix}.vertices", np.float64, None, 2),
        triangles=_expect(arrays, f"{prefix}.triangles", np.int32, None, 3),
        pixels=_expect(arrays, f"{prefix}.pixels", np.int32, None, 2),
        first_pixel=_expect(arrays, f"{prefix}.first_pixel", np.int32, None),
    )


def _pca(arrays: Mapping[str, NDArray[Any]], prefix: str, dimension: int, summary: Mapping[str, Any]) -> PCA:
    eigenvalues = _expect(arrays, f"{prefix}.eigenvalues", np.float64, None)
    return PCA(
        mean=_expect(arrays, f"{prefix}.mean", np.float32, dimension),
        components=_expect(arrays, f"{prefix}.components", np.float32, len(eigenvalues), dimension),
        eigenvalues=eigenvalues,
        total_variance=_real(summary["total_variance"]),
        rank=operator.index(summary["rank"]),
    )


def _flag(level: Mapping[str, Any], name: str) -> bool:
    """What a level says about itself; not, if it says nothing."""
    value = level.get(name, False)
    if not isinstance(value, bool):
        raise TypeError(f"{name} = {value!r} is neither true nor false")
    return value


def _real(value: Any) -> float:
    """A number that is one in the file as well, and not a text that looks like one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _landmark_names(names: object, landmarks: int) -> tuple[str, ...]:
    if (
        not isinstance(names, list)
        or len(names) not in (0, landmarks)
        or not all(isinstance(name, str) for name in names)
    ):
        raise ValueError(f"the names of its {landmarks} landmarks are {str(names)[:60]}")
    return tuple(names)


def _expect(arrays: Mapping[str, NDArray[Any]], name: str, dtype: type, *shape: int | None) -> NDArray[Any]:
    """The array, if it has this type and shape (None: any extent)."""
    array = arrays[name]
    fits = array.ndim == len(shape) and all(
        wanted in (None, extent) for wanted, extent in zip(shape, array.shape, strict=True)
    )
    if array.dtype != dtype or not fits:
        raise ValueError(f"'{name}' has type {array.dtype} and shape {array.shape}")
    return array
