"""What a model is trained with where nothing was said: as in the paper, or as is good for most objects.

Capture range comes from coarse levels with few modes: much appearance there explains images that are not aligned.
Accuracy comes from many modes of shape at the finest level, and from `igo` there, which sees sharply and not far.
Numbers of modes follow the number of samples, because a mode that few samples speak for explains nothing in a new
image. docs/explanation/settings.md has the measurements.
"""

from __future__ import annotations

from pliant.settings import DEFAULT_ALGORITHM, Training

PAPER = Training(
    preset="paper",
    size=150.0,
    scales=(0.5, 1.0),
    shape_modes=(3, 12),
    appearance_modes=(0.75,),
    features=("dsift",),
    algorithm=DEFAULT_ALGORITHM,
    iterations=(24, 16),
    hypotheses=1,
    noise_per_pixels=0.0,
    upright=False,
)
"""The paper's settings, whatever the defaults of `train` are."""

_SIZE = 150.0
_HYPOTHESES = 9
_FIRST, _ITERATIONS = 6, 12
"""Iterations at the coarsest level, where all hypotheses are tried, and at the others."""

_SMALLEST = 18.0
"""Pixels of an object in which features still tell it from its surroundings."""

_SCALES = {
    1: (1.0,),
    2: (0.5, 1.0),
    3: (0.25, 0.5, 1.0),
    4: (0.25, 0.5, 0.75, 1.0),
    5: (0.125, 0.25, 0.5, 0.75, 1.0),
}
_USUAL = 4

_MODES = ((0.2, 1, 2), (0.4, 2, 4), (0.6, 5, 15), (0.9, 12, 40), (1.0, 40, 80))
"""Up to each scale, the most modes of shape and of appearance."""

_SAMPLES_A_MODE = 3
"""Samples that there must be for each mode of appearance."""

SEARCHED = ("size", "scales", "shape_modes", "appearance_modes", "features", "iterations")
"""Settings of which none must be given for a search that nobody asked for."""


def searches(settings: Training) -> bool:
    """Whether settings ask for a search."""
    if settings.minutes == 0 or settings.preset in ("quick", "paper"):
        return False
    return settings.preset == "search" or not any(getattr(settings, name) for name in SEARCHED)


def settled(settings: Training, samples: int) -> Training:
    """Settings of which none is left open, for a model of so many samples."""
    if settings.preset == "paper":
        return _filled(settings, PAPER)
    size = settings.size or _SIZE
    scales = settings.scales or _scales(settings.levels, size)
    levels = len(scales)
    shape, appearance = zip(*(_modes(scale, samples) for scale in scales), strict=True)
    # From a coarse level straight to a sharp feature, too much would be lost.
    sharp = levels > 2 and scales[-1] > 0.9
    return _filled(
        settings,
        Training(
            size=size,
            scales=scales,
            shape_modes=shape,
            appearance_modes=appearance,
            features=("dsift",) * (levels - 1) + ("igo" if sharp else "dsift",),
            algorithm=DEFAULT_ALGORITHM,
            iterations=(24, 16) if levels == 2 else (_FIRST, *(_ITERATIONS,) * (levels - 1)),
            hypotheses=_HYPOTHESES if levels > 1 and size * scales[0] >= _SMALLEST else 1,
        ),
    )


def _scales(levels: int, size: float) -> tuple[float, ...]:
    """The scales of so many levels, or of as many as there are for an object of this size."""
    if levels == 0:
        return tuple(scale for scale in _SCALES[_USUAL] if size * scale >= _SMALLEST) or (1.0,)
    if levels not in _SCALES:
        raise ValueError(
            f"scales: give them for {levels} levels. pliant has default scales for at most {max(_SCALES)} "
            "levels."
        )
    return _SCALES[levels]


def _filled(settings: Training, usual: Training) -> Training:
    """Settings with what is usual where nothing is said."""
    open_ones = (*SEARCHED, "algorithm", "hypotheses")
    chosen = {name: getattr(usual, name) for name in open_ones if not getattr(settings, name)}
    if settings.preset == "paper":
        chosen |= {name: getattr(usual, name) for name in ("noise_per_pixels", "upright")}
    return settings.changed(**chosen)


def _modes(scale: float, samples: int) -> tuple[int, int]:
    """The most modes of shape and of appearance at a scale."""
    shape, appearance = next(modes for most, *modes in _MODES if scale <= most)
    return shape, max(1, min(appearance, samples // _SAMPLES_A_MODE))
