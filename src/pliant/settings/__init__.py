"""Settings: one frozen value for each task, and the only place where a setting is named.

A setting has its default, its check and its help here. `train`, `fit`, `evaluate` and `track` take these values,
model files and experiments keep them, and options of commands are made from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

from pliant.settings.declaring import Settings, setting, shown
from pliant.settings.kinds import (
    MODES,
    Kind,
    choice,
    count_or_all,
    flag,
    modes,
    number,
    numbers_of_landmarks,
    optional,
    several,
    text,
    unset,
    whole,
)

if TYPE_CHECKING:
    from pliant.arrays import Floats, Image

SMALLEST_SIZE, LARGEST_SIZE = 8.0, 2000.0
"""Pixels that an object may measure in a model."""

MOTION_MODELS = ("piecewise-affine", "thin-plate-spline", "patches")
DEVICES = ("cpu", "reference")
PRESETS = ("search", "quick", "paper")
WAYS = ("auto", "detector", "placement", "scan", "centre", "landmarks")
"""Ways of finding where to start."""

DEFAULT_ALGORITHM = "ssd:map-asy:0.2-gn-sch"
"""Chosen on images held out of the training sets: docs/results."""

Modes = int | float | str
"""A count of modes (int), the share of the variance that they must explain (float below 1), or "all"."""

Detector = Callable[["Image"], "Floats"]
"""From an image `(h, w)` or `(h, w, 3)` to boxes `(k, 4)`: left, top, right, bottom; none is `(0, 4)`."""

Value = TypeVar("Value")

PER_LEVEL = ("scales", "shape_modes", "appearance_modes", "features", "iterations")
"""Settings of training that have a value for each level."""

_MODES = several(modes(), f"{MODES}, one each or one for all")
_PAIRS = numbers_of_landmarks(2, "true, false, or pairs of landmark numbers, from 0")
_DETECTOR = optional(
    Kind(lambda value: value if callable(value) else text("a name or a function").check(value))
)
_ALGORITHM = Kind(str, metavar="<name>")
_ITERATIONS = several(whole(1), "a whole number from 1 for each level, from coarse to fine, or one for all")
_SHARE = number(above=0, most=1, what="a share above 0 and up to 1")
_PROBABILITY = number(0, 1, what="a probability from 0 to 1")


@dataclass(frozen=True)
class Training(Settings):
    """How to train a model. `train` takes these settings, and the model keeps them.

    `scales`, `shape_modes`, `appearance_modes`, `features` and `iterations` have one value for each level, from
    coarse to fine; a single value is for all levels. Modes are a count (12), a share of the variance (0.75) or
    "all". `train` chooses what is empty or None, and the model's settings have what it chose.

    Examples
    --------
    >>> import pliant
    >>> settings = pliant.Training(size=100, shape_modes=(3, 0.95))
    >>> settings.changed(features="igo").shape_modes, settings.levels
    ((3, 0.95), 2)
    >>> pliant.Training(size=3)
    Traceback (most recent call last):
    ValueError: size=3: ...

    Settings can be written to a file and read back:

    >>> settings.save("settings.toml")
    >>> pliant.Training.load("settings.toml") == settings
    True

    """

    TABLE: ClassVar[str] = "train"

    preset: Literal["search", "quick", "paper"] | None = setting(
        None,
        optional(choice(*PRESETS)),
        "Where settings come from that are not given. search: tried out on held-out samples. quick: what is good "
        "for most objects. paper: the paper's. If not given: search, or quick where any of size, scales, modes, "
        "features or iterations is given.",
    )
    minutes: float = setting(
        2.0,
        number(0, what="a number of minutes from 0"),
        "About how long a search may take; with 0 there is none. It decides how much is tried, and not when to "
        "stop: the same data gives the same settings on any machine.",
    )
    size: float | None = setting(
        None,
        optional(
            number(
                SMALLEST_SIZE,
                LARGEST_SIZE,
                what=f"a number of pixels from {SMALLEST_SIZE:g} to {LARGEST_SIZE:g}",
            )
        ),
        "Size of the object at scale 1, in pixels: the mean of the height and the width of its landmarks.",
    )
    scales: tuple[float, ...] = setting(
        (),
        unset(several(number(above=0, most=1), "scales from coarse to fine, above 0 and up to 1")),
        "Levels from coarse to fine.",
    )
    shape_modes: tuple[Modes, ...] = setting(
        (),
        unset(_MODES),
        "Modes of shape a level: counts (12), shares of the variance (0.75), or all.",
    )
    appearance_modes: tuple[Modes, ...] = setting(
        (),
        unset(_MODES),
        "Modes of appearance a level: counts (12), shares of the variance (0.75), or all.",
    )
    features: tuple[str, ...] = setting(
        (),
        unset(several(text("a name"), "a name for each level, from coarse to fine, or one for all")),
        "Features a level: intensity, normalized, gradient, igo or dsift.",
    )
    algorithm: str = setting(
        "", _ALGORITHM, "What fits the model unless told otherwise: docs/explanation/algorithms.md."
    )
    iterations: tuple[int, ...] = setting(
        (),
        unset(_ITERATIONS),
        "Most iterations a level when the model is fitted, coarse to fine, unless told otherwise.",
    )
    hypotheses: int = setting(
        0,
        whole(0),
        "Places about the start that are tried at the coarsest level when the model is fitted: 1 is the start "
        "alone.",
    )
    noise_per_pixels: float = setting(
        36.0,
        number(0, what="a number from 0"),
        "Neighbouring pixels err together: so many count as one observation where images are weighed against the "
        "prior. 0: as in the paper, where more training images make the prior weaker.",
    )
    colour: bool = setting(
        False,
        flag(),
        "Let features see colour, in as many channels: for objects that colour tells from their surroundings "
        "(gradient, igo, dsift).",
    )
    upright: bool = setting(
        True,
        flag(),
        "See the object as upright as the mean shape, however it is turned in an image; without, features keep the "
        "image's axes, as in the paper.",
    )
    motion: str = setting("piecewise-affine", choice(*MOTION_MODELS), "How pixels move with the landmarks.")
    triangles: tuple[tuple[int, ...], ...] | None = setting(
        None,
        optional(numbers_of_landmarks(3, "rows of three landmark numbers, from 0")),
        "Rows of three landmark numbers each, from 0; otherwise the mean shape is triangulated.",
    )
    mirror: bool | tuple[tuple[int, ...], ...] = setting(
        False,
        Kind(
            lambda value: (
                value
                if isinstance(value, bool)
                else numbers_of_landmarks(2, "true, false, or pairs of landmark numbers, from 0").check(value)
            )
        ),
        "Add mirrored copies; finds which landmarks change places.",
    )
    facing: Literal["auto", "both", "left", "right", "as-is"] = setting(
        "auto",
        choice("auto", "both", "left", "right", "as-is"),
        "Objects that are seen from either side, such as fish. auto: if some samples are mirror images of the "
        "others, turn them round, and let fits try both ways. both: let fits try both ways in any case. left, "
        "right: turn all to that side, where the first landmark is, and let fits expect it. as-is: turn none.",
    )
    missing: Literal["refuse", "complete"] = setting(
        "refuse",
        choice("refuse", "complete"),
        "Samples that lack landmarks: refuse them, or complete them from the others.",
    )
    skip_invalid: bool = setting(False, flag(), "Leave out samples that cannot be used, and say which.")
    detector: str | Detector | None = setting(
        "auto",
        _DETECTOR,
        "Learn where the object is in a detector's boxes: haar-face, your own as file.py:function, none, or auto, "
        "which is haar-face if it finds the object. Your own is run: that file may do whatever you may.",
    )
    experts: Literal["auto", "none", "linear", "network"] = setting(
        "auto",
        choice("auto", "none", "linear", "network"),
        "What sees landmarks by itself, and enters the cost of every fit. linear: filters, without PyTorch. "
        "network: convolutional, trained with PyTorch (pliant[experts]) in minutes, and used "
        "without it. auto: with a search for settings, what serves held-out samples best; a network only where it "
        "takes no longer than the minutes of the search. none: the model alone, as in the paper.",
    )
    cascade: bool = setting(
        False,
        flag(),
        "Learn cascaded regression at the coarse levels, from starts that are far off: fits of the model alone "
        "reach farther.",
    )
    confidence: bool = setting(
        True,
        flag(),
        "Learn, from fits of held-out samples, how far fits of this model can be trusted; it takes a few times as "
        "long as training.",
    )
    memory_gb: float = setting(
        2.0,
        number(above=0, what="a number of gigabytes"),
        "Gigabytes for samples, on a cluster for each thread of a worker; beyond that they are streamed.",
    )
    licence: str = setting("", text(), "A note on the data's licence, kept in the file.")
    seed: int = setting(0, whole(0), "Another seed holds out other samples.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if list(self.scales) != sorted(set(self.scales)):
            raise ValueError(f"scales={shown(self.scales)}: they must rise from coarse to fine.")
        levels = self.levels
        for name in PER_LEVEL:
            values = getattr(self, name)
            if len(values) > 1 and len(values) != levels:
                raise ValueError(
                    f"{name}={shown(values)}: these are {len(values)} values for {levels} levels; give one for "
                    "all, or one each."
                )

    @property
    def levels(self) -> int:
        """The number of levels that these settings ask for; 0 if they leave it open."""
        given = [len(getattr(self, name)) for name in PER_LEVEL]
        return given[0] or max((count for count in given if count > 1), default=0)

    def per_level(self, values: Sequence[Value]) -> tuple[Value, ...]:
        """Return one value for each level.

        Parameters
        ----------
        values : sequence
            One value for all levels, or one for each.

        Returns
        -------
        tuple
            As many values as there are levels.

        Examples
        --------
        >>> import pliant
        >>> settings = pliant.Training(scales=(0.5, 1.0), features=("dsift",))
        >>> settings.levels, settings.per_level(settings.features)
        (2, ('dsift', 'dsift'))

        """
        return tuple(values) * (1 if len(values) == self.levels else self.levels)


@dataclass(frozen=True)
class Stopping(Settings):
    """When a fit stops before it has used all iterations; a part of `Fitting`.

    Examples
    --------
    >>> import pliant
    >>> pliant.Fitting(stopping=pliant.Stopping(tolerance=0.1, patience=3)).stopping.patience
    3

    """

    tolerance: float = setting(
        0.01, number(0), "A fit has converged when no landmark moves farther, in pixels of the level."
    )
    patience: int | None = setting(
        None, optional(whole(1)), "Iterations without a better cost after which to stop; never, if not given."
    )
    ellipsoid: float = setting(
        3.0,
        number(above=0, what="a number above 0"),
        "A shape is implausible beyond this Mahalanobis distance from the mean, per root of the number of modes.",
    )
    clamp: bool = setting(False, flag(), "Pull shapes back onto that ellipsoid at every iteration.")


@dataclass(frozen=True)
class Starting(Settings):
    """Where fits begin in images without annotations. `find_starts` takes these settings.

    Examples
    --------
    >>> import pliant
    >>> pliant.Starting(start="scan", tries=3).to_dict()
    {'start': 'scan', 'tries': 3, 'any_rotation': False, 'seed': 0}

    """

    start: str = setting(
        "auto",
        choice(*WAYS),
        "Where fits begin. auto: all boxes of the detector that the model was trained with, then the usual place "
        "in the training images, then a scan of the image, until a fit is trusted. centre: the mean shape in the "
        "middle, filling 60 % of the smaller side. landmarks: the landmarks that the image has already.",
    )
    tries: int = setting(5, whole(1), "Starts tried for each object, of which the best fit is kept.")
    detector: str | Detector | None = setting(
        None,
        _DETECTOR,
        "The detector: haar-face, or your own as file.py:function or module:function, the same as in training. "
        "Your own is run: that file may do whatever you may.",
    )
    fallback: str | None = setting(
        None,
        optional(choice("placement", "scan", "centre")),
        "What to do where the detector finds nothing; else the image fails.",
    )
    any_rotation: bool = setting(
        False,
        flag(),
        "Scan for objects that are turned by any angle, not only by angles that training images have; it takes "
        "several times as long.",
    )
    seed: int = setting(0, whole(0), "Another seed draws other starts.")


@dataclass(frozen=True)
class Fitting(Starting):
    """How to fit images. `fit` and `evaluate` take these settings.

    Examples
    --------
    >>> import pliant
    >>> settings = pliant.Fitting(algorithm="po-asy-gn", iterations=20)
    >>> settings.iterations
    (20,)
    >>> model = pliant.load("faces.pliant")
    >>> pliant.fit(model, "new.jpg", "centre", settings).algorithm
    'po-asy-gn'

    """

    TABLE: ClassVar[str] = "fit"

    objects: int | Literal["all"] = setting(
        "all",
        count_or_all("objects"),
        "Most objects to find in an image: a number, or all that are trusted. Where none is, there is one fit all "
        "the same, that with most confidence.",
    )
    trusted: float = setting(
        0.5,
        _PROBABILITY,
        "A fit is trusted with this confidence that its error is below 0.04. With start auto, other ways of "
        "starting are tried until one is; 0: the first fit is taken.",
    )
    algorithm: str = setting(
        "", _ALGORITHM, "An algorithm's name: docs/explanation/algorithms.md; the model's own if not given."
    )
    iterations: tuple[int, ...] | None = setting(
        None,
        optional(_ITERATIONS),
        "Most iterations a level, coarse to fine; the model's own if not given.",
    )
    hypotheses: int | None = setting(
        None,
        optional(whole(1)),
        "Places about the start that are tried at the coarsest level, of which the best go on; 1 is the start "
        "alone. The model's own if not given.",
    )
    experts: bool = setting(
        True,
        flag(),
        "Listen to the model's expert, if it has one: it says where landmarks are, before pixels are fitted and "
        "while they are. Without it, the model is fitted alone.",
    )
    cascade: bool = setting(
        True,
        flag(),
        "Fit by cascaded regression at the coarse levels that have learned it; without, by the algorithm alone.",
    )
    sampling: float = setting(1.0, _SHARE, "Share of the pixels to look at.")
    robust: bool = setting(
        False,
        flag(),
        "Weigh down what the model cannot explain, such as a hand before a face; fits take longer.",
    )
    stopping: Stopping = field(default_factory=Stopping)
    order: Literal["exact", "first-order"] = setting(
        "exact", choice("exact", "first-order"), "How warps are composed."
    )
    device: str = setting("cpu", choice(*DEVICES), "What computes: cpu, or reference (slow, for checks).")

    def suited_to(self, trained: Training, levels: int) -> Fitting:
        """Fill in what these settings leave open with the settings that a model was trained with.

        Parameters
        ----------
        trained : Training
            The settings of the model, `model.settings`.
        levels : int
            How many levels the model has.

        Returns
        -------
        Fitting
            Settings with an algorithm, iterations for each level, and a number of hypotheses.

        Raises
        ------
        ValueError
            If `iterations` has neither one number nor one for each level.

        Examples
        --------
        >>> import pliant
        >>> model = pliant.load("faces.pliant")
        >>> pliant.Fitting(iterations=8).suited_to(model.settings, levels=2).iterations
        (8, 8)

        """
        own = trained.iterations if len(trained.iterations) in (1, levels) else ()
        counts = self.iterations or own or ((24, 16) if levels == 2 else (20,))
        if len(counts) not in (1, levels):
            raise ValueError(
                f"iterations={shown(counts)}: the model has {levels} levels; give one number for all, or one each."
            )
        return replace(
            self,
            algorithm=self.algorithm or trained.algorithm or DEFAULT_ALGORITHM,
            iterations=counts * (1 if len(counts) == levels else levels),
            hypotheses=self.hypotheses or trained.hypotheses or 1,
        )


@dataclass(frozen=True)
class Evaluating(Settings):
    """Where fits begin and which landmarks count in an evaluation. `evaluate` takes these settings.

    Examples
    --------
    >>> import pliant
    >>> pliant.Evaluating(noise=0.1, points="interior49").starts
    3

    """

    TABLE: ClassVar[str] = "evaluate"

    start: str = setting(
        "auto",
        choice(*WAYS[:-1], "noise"),
        "Where fits begin: found in the image, as the command fit does it, or noise: the known landmarks, moved at "
        "random, for comparing algorithms from the same starts.",
    )
    noise: float = setting(
        0.05,
        number(0, below=1, what="a number from 0 and below 1"),
        "How far off the random starts are; the paper has 0.05.",
    )
    starts: int = setting(3, whole(1), "Random starts for each object, a fit each.")
    points: str = setting(
        "all", text(), "Landmarks that count: all, interior49, or ranges such as 17-59,61-63."
    )
    skip_invalid: bool = setting(False, flag(), "Leave out samples that cannot be used, and say which.")


@dataclass(frozen=True)
class Tracking(Starting):
    """How to follow objects through a video. `track` takes these settings.

    Examples
    --------
    >>> import pliant
    >>> pliant.Tracking(look_every=5).changed(iterations=6).look_every
    5

    """

    TABLE: ClassVar[str] = "track"

    objects: int | Literal["all"] = setting(
        "all",
        count_or_all("objects"),
        "Most objects to follow: a number, or all that are trusted. If places are given for the first frame: the "
        "objects there, unless this is a larger number.",
    )
    algorithm: str = setting(
        "", _ALGORITHM, "An algorithm's name: docs/explanation/algorithms.md; the model's own if not given."
    )
    iterations: int = setting(4, whole(1), "Most iterations from frame to frame.")
    sampling: float = setting(0.25, _SHARE, "Share of the pixels to look at from frame to frame.")
    trusted: float = setting(
        0.5,
        _PROBABILITY,
        "A fit is believed with this confidence that its error is below 0.04, if the model was calibrated.",
    )
    most_mismatch: float = setting(
        0.7,
        number(0),
        "A fit of a model that was not calibrated is believed below this mismatch of image and model.",
    )
    most_growth: float = setting(
        1.25,
        number(1, what="a factor from 1"),
        "An object whose size changes by more than this from one frame to the next is looked for anew.",
    )
    look_every: int = setting(1, whole(1), "While an object is lost, look for it in every N-th frame.")
    new_every: int = setting(
        25, whole(1), "While objects are followed, look for further ones in every N-th frame."
    )
    forget_after: int = setting(
        250,
        whole(1),
        "Frames after which a lost object is given up, if all are followed: it has no more rows, and a new number "
        "should it come back.",
    )
