"""Settings: one frozen value for each task, and the only place where a setting is named.

A setting has its default, its check and its help here. `train`, `fit`, `evaluate` and `track` take these values,
model files and experiments keep them, and options of commands are made from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

from pliant.settings.declaring import Settings, declared, setting, shown
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
DEVICES = ("cpu", "cuda", "torch", "reference")
PRECISIONS = ("float32", "tf32")
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

_AUTO = (
    "Where fits start. auto: try all boxes of the detector that the model was trained with, then the usual place "
    "in the training images, then a scan of the image, until a fit is trusted. centre: the mean shape in the "
    "middle, filling 60 % of the smaller side."
)
_MODES = several(modes(), f"{MODES}, one for each level or one for all")
_PAIRS = numbers_of_landmarks(2, "true, false, or pairs of landmark numbers (counted from 0)")
_DETECTOR = optional(
    Kind(lambda value: value if callable(value) else text("a name or a function").check(value))
)
_ALGORITHM = Kind(str, metavar="<name>")
_ITERATIONS = several(
    whole(1), "a whole number of at least 1 for each level, from coarse to fine, or one for all levels"
)
_SHARE = number(above=0, most=1, what="a share above 0 and at most 1")
_PROBABILITY = number(0, 1, what="a probability from 0 to 1")


@declared
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
        "How to choose the settings that you do not give. search: try settings on held-out samples. quick: "
        "settings that are good for most objects. paper: the paper's settings. Default: search, or quick if "
        "you give any of size, scales, modes, features or iterations.",
    )
    minutes: float = setting(
        2.0,
        number(0, what="a number of minutes, 0 or more"),
        "How thorough the search for settings is: the minutes that it takes on a machine with two cores, "
        "roughly. More minutes fit more held-out samples; 0 turns the search off, as preset quick does. "
        "This is not a time limit: the same data gives the same settings on a machine of any speed.",
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
        unset(several(number(above=0, most=1), "scales from coarse to fine, above 0 and at most 1")),
        "Scale of each level, from coarse to fine.",
    )
    shape_modes: tuple[Modes, ...] = setting(
        (),
        unset(_MODES),
        "Shape modes of each level: a count (12), a share of the variance (0.75), or all.",
    )
    appearance_modes: tuple[Modes, ...] = setting(
        (),
        unset(_MODES),
        "Appearance modes of each level: a count (12), a share of the variance (0.75), or all.",
    )
    features: tuple[str, ...] = setting(
        (),
        unset(several(text("a name"), "a name for each level, from coarse to fine, or one for all levels")),
        "Features of each level: intensity, normalized, gradient, igo or dsift.",
    )
    algorithm: str = setting(
        "", _ALGORITHM, "Default algorithm for fits of this model: see docs/explanation/algorithms.md."
    )
    iterations: tuple[int, ...] = setting(
        (),
        unset(_ITERATIONS),
        "Default maximum number of iterations at each level, from coarse to fine.",
    )
    hypotheses: int = setting(
        0,
        whole(0, "a whole number of at least 1: 1 tries the start alone (0 leaves the choice to the preset)"),
        "Default number of positions around the start to try at the coarsest level; 1 tries the start alone, "
        "and 0 leaves the choice to the preset.",
    )
    noise_per_pixels: float = setting(
        36.0,
        number(0, what="a number, 0 or more"),
        "Errors of neighbouring pixels are correlated. This many pixels count as one observation when the "
        "image is weighed against the prior. 0: as in the paper, where more training images weaken the "
        "prior.",
    )
    colour: bool = setting(
        False,
        flag(),
        "Compute features from each colour channel (gradient, igo, dsift). This helps if colour sets the object "
        "apart from its surroundings.",
    )
    upright: bool = setting(
        True,
        flag(),
        "Turn the image so that the object is as upright as the mean shape before features are computed. "
        "Off: features keep the image's axes, as in the paper.",
    )
    motion: str = setting("piecewise-affine", choice(*MOTION_MODELS), "How pixels move with the landmarks.")
    triangles: tuple[tuple[int, ...], ...] | None = setting(
        None,
        optional(numbers_of_landmarks(3, "rows of three landmark numbers (counted from 0)")),
        "Triangles, as rows of three landmark numbers (counted from 0). Default: a triangulation of the "
        "mean shape.",
    )
    mirror: bool | tuple[tuple[int, ...], ...] = setting(
        False,
        Kind(
            lambda value: (
                value
                if isinstance(value, bool)
                else numbers_of_landmarks(
                    2, "true, false, or pairs of landmark numbers (counted from 0)"
                ).check(value)
            )
        ),
        "Add mirrored copies of the samples. pliant finds out which landmarks swap places.",
    )
    facing: Literal["auto", "both", "left", "right", "as-is"] = setting(
        "auto",
        choice("auto", "both", "left", "right", "as-is"),
        "For objects seen from either side, such as fish. auto: if some samples are mirror images of the "
        "others, flip them and try both directions in fits. both: always try both directions in fits. left, "
        "right: flip all samples so that the first landmark is on that side, and expect that side in fits. "
        "as-is: flip nothing.",
    )
    missing: Literal["refuse", "complete"] = setting(
        "refuse",
        choice("refuse", "complete"),
        "What to do with samples that lack landmarks: refuse them, or complete them from the other samples.",
    )
    skip_invalid: bool = setting(False, flag(), "Leave out samples that cannot be used, and list them.")
    detector: str | Detector | None = setting(
        "auto",
        _DETECTOR,
        "Learn where the object lies in a detector's boxes: haar-face, your own as file.py:function, none, "
        "or auto, which uses haar-face if it finds the object. Your own detector is run as code, so it can "
        "do anything that you can do.",
    )
    experts: Literal["auto", "none", "linear", "network"] = setting(
        "auto",
        choice("auto", "none", "linear", "network"),
        "An expert locates landmarks on its own and adds a term to the cost of every fit. linear: filters, "
        "without PyTorch. network: a convolutional network, trained with PyTorch (pliant[experts]) in "
        "minutes and used without it. auto: if settings are searched for, whichever is best on held-out "
        "samples; a network only if its training takes no longer than the minutes of the search. none: the "
        "model alone, as in the paper.",
    )
    cascade: bool = setting(
        False,
        flag(),
        "Learn cascaded regression at the coarse levels from distant starts, so that fits of the model "
        "alone converge from farther away.",
    )
    confidence: bool = setting(
        True,
        flag(),
        "Fit held-out samples to learn how far fits of this model can be trusted. This takes a few times as "
        "long as training.",
    )
    memory_gb: float = setting(
        2.0,
        number(above=0, what="a number of gigabytes"),
        "Memory for samples in gigabytes; on a cluster, for each thread of a worker. Beyond that, samples "
        "are streamed.",
    )
    licence: str = setting("", text(), "A note on the licence of the data; it is kept in the model file.")
    seed: int = setting(0, whole(0), "A different seed holds out different samples.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if list(self.scales) != sorted(set(self.scales)):
            raise ValueError(f"scales={shown(self.scales)}: scales must increase from coarse to fine.")
        levels = self.levels
        for name in PER_LEVEL:
            values = getattr(self, name)
            if len(values) > 1 and len(values) != levels:
                raise ValueError(
                    f"{name}={shown(values)}: got {len(values)} values for {levels} levels; give one for all "
                    "levels, or one for each."
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


@declared
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
        0.01,
        number(0),
        "A fit has converged when no landmark moves farther than this, in pixels of the level.",
    )
    patience: int | None = setting(
        None, optional(whole(1)), "Stop after this many iterations without a lower cost. Default: never."
    )
    ellipsoid: float = setting(
        3.0,
        number(above=0, what="a number above 0"),
        "A shape is implausible if its Mahalanobis distance from the mean exceeds this number times the "
        "square root of the number of modes.",
    )
    clamp: bool = setting(False, flag(), "Pull implausible shapes back to that distance at every iteration.")


@declared
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
        f"{_AUTO} landmarks: the landmarks that the image already has.",
    )
    tries: int = setting(5, whole(1), "Number of starts to try for each object; the best fit is kept.")
    detector: str | Detector | None = setting(
        None,
        _DETECTOR,
        "The detector: haar-face, or your own as file.py:function or module:function. Use the same one as "
        "in training. Your own detector is run as code, so it can do anything that you can do.",
    )
    fallback: str | None = setting(
        None,
        optional(choice("placement", "scan", "centre")),
        "What to do if the detector finds nothing. By default, the image fails.",
    )
    any_rotation: bool = setting(
        False,
        flag(),
        "Scan for objects at any rotation, not only those in the training images. This takes several times "
        "as long.",
    )
    seed: int = setting(0, whole(0), "A different seed draws different starts.")


@declared
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
        "Maximum number of objects to find in an image, or all for every trusted one. If none is trusted, "
        "the fit with the highest confidence is kept.",
    )
    trusted: float = setting(
        0.5,
        _PROBABILITY,
        "A fit is trusted if the confidence that its error is below 0.04 is at least this. With start auto, "
        "other ways of starting are tried until a fit is trusted; 0 keeps the first fit.",
    )
    algorithm: str = setting(
        "", _ALGORITHM, "Name of the algorithm: see docs/explanation/algorithms.md. Default: the model's own."
    )
    iterations: tuple[int, ...] | None = setting(
        None,
        optional(_ITERATIONS),
        "Maximum number of iterations at each level, from coarse to fine. Default: the model's own.",
    )
    hypotheses: int | None = setting(
        None,
        optional(whole(1, "a whole number of at least 1; 1 tries the start alone")),
        "Positions around the start to try at the coarsest level; the best ones go on. 1 tries the start "
        "alone, and coarse levels then do not check where an expert leads. Default: the model's own.",
    )
    experts: bool = setting(
        True,
        flag(),
        "Use the model's expert, if it has one. It locates landmarks before and during the fit. Off: fit "
        "the model alone.",
    )
    cascade: bool = setting(
        True,
        flag(),
        "Use cascaded regression at the coarse levels that have learned it. Off: use the algorithm alone.",
    )
    sampling: float = setting(1.0, _SHARE, "Share of the pixels to use.")
    robust: bool = setting(
        False,
        flag(),
        "Give less weight to pixels that the model cannot explain, such as a hand in front of a face. Fits "
        "take longer.",
    )
    stopping: Stopping = field(default_factory=Stopping)
    order: Literal["exact", "first-order"] = setting(
        "exact", choice("exact", "first-order"), "How warps are composed."
    )
    device: str = setting(
        "cpu",
        choice(*DEVICES),
        "Where to fit: cpu, cuda (an NVIDIA GPU, with PyTorch), or, for checks, torch (PyTorch on the CPU) and "
        "reference (slow).",
    )
    precision: Literal["float32", "tf32"] = setting(
        "float32",
        choice(*PRECISIONS),
        "Arithmetic of the device cuda: float32, which gives the landmarks of the CPU, or tf32, which is faster "
        "and moves the landmarks of a few fits.",
    )

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
                f"iterations={shown(counts)}: the model has {levels} levels; give one number for all levels, "
                "or one for each."
            )
        return replace(
            self,
            algorithm=self.algorithm or trained.algorithm or DEFAULT_ALGORITHM,
            iterations=counts * (1 if len(counts) == levels else levels),
            hypotheses=self.hypotheses or trained.hypotheses or 1,
        )


@declared
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
        "Where fits start. noise: at the known landmarks, moved at random, to compare algorithms from the same "
        "starts. All others: as in pliant fit.",
    )
    noise: float = setting(
        0.05,
        number(0, below=1, what="a number of at least 0 and below 1"),
        "How far off the random starts are; the paper uses 0.05.",
    )
    starts: int = setting(3, whole(1), "Random starts for each object; each is fitted.")
    points: str = setting(
        "all", text(), "Landmarks to measure errors on: all, interior49, or ranges such as 17-59,61-63."
    )
    skip_invalid: bool = setting(False, flag(), "Leave out samples that cannot be used, and list them.")


@declared
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

    # Frames have no landmarks of their own.
    start: str = setting("auto", choice(*WAYS[:-1]), _AUTO)
    objects: int | Literal["all"] = setting(
        "all",
        count_or_all("objects"),
        "Maximum number of objects to follow, or all for every trusted one. If you give places for the "
        "first frame, those objects are followed, unless this number is larger.",
    )
    algorithm: str = setting(
        "", _ALGORITHM, "Name of the algorithm: see docs/explanation/algorithms.md. Default: the model's own."
    )
    iterations: int = setting(4, whole(1), "Maximum number of iterations from one frame to the next.")
    sampling: float = setting(0.25, _SHARE, "Share of the pixels to use from one frame to the next.")
    trusted: float = setting(
        0.5,
        _PROBABILITY,
        "For a calibrated model: a fit is trusted if the confidence that its error is below 0.04 is at "
        "least this.",
    )
    most_mismatch: float = setting(
        0.7,
        number(0),
        "For a model that is not calibrated: a fit is trusted if the mismatch of image and model is below "
        "this.",
    )
    most_growth: float = setting(
        1.25,
        number(1, what="a factor of at least 1"),
        "If an object's size changes by more than this factor from one frame to the next, search for it "
        "again.",
    )
    look_every: int = setting(1, whole(1), "While an object is lost, search for it in every N-th frame.")
    new_every: int = setting(25, whole(1), "While objects are followed, search for more in every N-th frame.")
    forget_after: int = setting(
        250,
        whole(1),
        "If all objects are followed: give up a lost object after this many frames. It gets no more rows, "
        "and a new number if it comes back.",
    )
