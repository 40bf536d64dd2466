"""What a search tries: one setting after the other, each with the best that was found for those before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pliant.settings import PER_LEVEL, Modes, Training
from pliant.shape import SIMILARITY

FINEST = "finest level"

SCALES = ((0.125, 0.25, 0.5, 0.75, 1.0), (0.5, 0.75, 1.0))
"""Pyramids that are deeper and flatter than the usual one."""

FEATURES = ("dsift", "igo")
SIZES = (100.0, 220.0)
ALGORITHMS = ("ssd:map-for-gn-sch", "po:0.5:map-asy-gn")
MOST_SHAPE, MOST_APPEARANCE = 60, 120
"""The most modes that are tried."""

Change = dict[str, Any]


@dataclass(frozen=True)
class Axis:
    """A setting, and `changes` of it in words and as values.

    They follow from the settings so far and the numbers of samples and landmarks.
    """

    setting: str
    changes: Callable[[Training, int, int], Iterator[tuple[str, Change]]]

    def open_in(self, settings: Training) -> bool:
        """Whether these settings leave it to a search."""
        if self.setting == "scales":
            # Values that were given for levels would not fit others.
            return settings.levels == 0
        return bool(getattr(settings, self.setting) == getattr(Training(), self.setting))


def _pyramids(settings: Training, samples: int, landmarks: int) -> Iterator[tuple[str, Change]]:
    """Other levels; what has a value for each of them follows."""
    per_level = [name for name in PER_LEVEL if len(getattr(settings, name)) > 1]
    for scales in SCALES:
        names = ", ".join(f"{scale:g}" for scale in scales)
        yield f"levels at {names}", {**dict.fromkeys(per_level, ()), "scales": scales}


def _features(settings: Training, samples: int, landmarks: int) -> Iterator[tuple[str, Change]]:
    *coarse, finest = settings.per_level(settings.features)
    for name in FEATURES:
        if name != finest:
            yield f"{name} at the {FINEST}", {"features": (*coarse, name)}


def _shape_modes(settings: Training, samples: int, landmarks: int) -> Iterator[tuple[str, Change]]:
    *coarse, finest = settings.per_level(settings.shape_modes)
    # No shape has more: a model that is asked for 55 modes of 15 landmarks has 26.
    there = 2 * landmarks - SIMILARITY
    for factor in (0.5, 1.5):
        modes = min(round(factor * _count(finest)), MOST_SHAPE, samples - 1, there)
        if modes not in (0, min(_count(finest), there)):
            yield f"{modes} modes of shape at the {FINEST}", {"shape_modes": (*coarse, modes)}


def _appearance_modes(settings: Training, samples: int, landmarks: int) -> Iterator[tuple[str, Change]]:
    values = settings.per_level(settings.appearance_modes)
    for factor in (0.5, 1.5):
        # Half of the samples, at most: the others must say what noise is.
        most = min(MOST_APPEARANCE, max(1, samples // 2))
        modes = tuple(max(1, min(round(factor * _count(value)), most)) for value in values)
        if modes != values:
            yield f"{factor:g} times the modes of appearance", {"appearance_modes": modes}


def _prior(settings: Training, samples: int, landmarks: int) -> Iterator[tuple[str, Change]]:
    for factor, word in ((0.25, "weaker"), (4.0, "stronger")):
        yield f"a {word} prior", {"noise_per_pixels": factor * settings.noise_per_pixels}


def _algorithms(settings: Training, samples: int, landmarks: int) -> Iterator[tuple[str, Change]]:
    yield from ((f"algorithm {name}", {"algorithm": name}) for name in ALGORITHMS)


def _iterations(settings: Training, samples: int, landmarks: int) -> Iterator[tuple[str, Change]]:
    yield "twice the iterations", {"iterations": tuple(2 * count for count in settings.iterations)}


def _sizes(settings: Training, samples: int, landmarks: int) -> Iterator[tuple[str, Change]]:
    yield from ((f"size {size:g} pixels", {"size": size}) for size in SIZES)


AXES: tuple[Axis, ...] = (
    Axis("scales", _pyramids),
    Axis("features", _features),
    Axis("shape_modes", _shape_modes),
    Axis("appearance_modes", _appearance_modes),
    Axis("noise_per_pixels", _prior),
    Axis("algorithm", _algorithms),
    Axis("iterations", _iterations),
    Axis("size", _sizes),
)
"""In the order of what they are worth: a change of the first may undo what was found for the others."""

TRIED = 15
"""About how many settings a search tries, the first included."""


def _count(modes: Modes) -> int:
    """A search starts from counts; shares come from users alone, and are then not searched."""
    assert isinstance(modes, int)
    return modes
