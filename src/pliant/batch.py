"""Fitting any number of images: found, fitted in blocks side by side, looked for again where in doubt, in order.

This is the only place where images are fitted by several threads. `pliant.fit`, runs to disk, evaluations,
experiments and calibration differ in where images and starts come from, and in what becomes of a fit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar, cast, overload

from pliant.arrays import Floats, Image
from pliant.fitting.fitter import Fitter, make_fitter
from pliant.fitting.result import FitResult, failed
from pliant.inputs import ImageSource, StartSource, is_one_image, paired, read, start_of_one
from pliant.model import Model
from pliant.settings import Fitting
from pliant.starts.choice import FindStarts, find_starts
from pliant.starts.known import known_landmarks
from pliant.threads import one_blas_thread
from pliant.trust.confidence import DEFAULT_BOUND

BLOCK = 8
"""Most images that are fitted together: so many share what is read of the model."""

Outcome = TypeVar("Outcome")

Work = tuple[ImageSource, StartSource]


@dataclass(frozen=True)
class Rescan:
    """Another way to start, for images whose fit has less confidence than `below` or that had no start at all.

    `bound` is the error that confidence is about.
    """

    find: FindStarts
    below: float
    bound: float = DEFAULT_BOUND


def rescan_of(model: Model, settings: Fitting, bound: float = DEFAULT_BOUND) -> Rescan | None:
    """The rescan that settings ask for: of a model that knows confidence, where starts are chosen by `auto`."""
    if settings.start != "auto" or settings.rescan_below == 0 or model.confidence is None:
        return None
    return Rescan(
        find_starts(model, "scan", any_rotation=settings.any_rotation), settings.rescan_below, bound
    )


@overload
def fit(
    model: Model,
    images: ImageSource,
    starts: StartSource | str | None = None,
    settings: Fitting | None = None,
    **rest: Any,
) -> FitResult: ...


@overload
def fit(
    model: Model,
    images: Iterable[ImageSource],
    starts: Iterable[StartSource] | Callable[[Image], Floats] | str | None = None,
    settings: Fitting | None = None,
    **rest: Any,
) -> list[FitResult]: ...


def fit(
    model: Model,
    images: ImageSource | Iterable[ImageSource],
    starts: StartSource | Iterable[StartSource] | str | None = None,
    settings: Fitting | None = None,
    *,
    jobs: int | None = None,
    trace: bool = True,
    confidence: bool | None = None,
    **changes: Any,
) -> FitResult | list[FitResult]:
    """Fit a model to one image or many.

    Parameters
    ----------
    model
        What to fit.
    images
        An image is a file, a sample, or an array `(h, w)` or `(h, w, 3)`. Many are a data set, an array `(n, h, w)`
        or `(n, h, w, 3)`, or whatever else can be gone through.
    starts
        Where fits begin. None: they are found as `settings.start` says. A text is such a way of finding them. For
        one image: a shape `(v, 2)` or a box (left, top, right, bottom), several of either, `(k, v, 2)` or `(k, 4)`,
        of which the best fit is kept, or a function from the image to these. For many images: one for each, or one
        function for all.
    settings
        How to fit, `Fitting()` if not given.
    jobs
        Threads that fit blocks of images side by side; all cores if not given.
    trace
        Keep every iteration. Without, `po-inv-gn` is quicker, because it finds its cost at the end alone.
    confidence
        Have evidence and covariance, at the price of about one iteration; if the model was calibrated, unless told
        otherwise.
    **changes
        Settings by their names, in place of those in `settings`: `fit(model, images, algorithm="po-asy-gn")`.

    Returns
    -------
    FitResult or list of FitResult
        A result for one image, a list for many, in order. An image or a start that cannot be used gives a result
        with the status `failed` and a reason; the others are fitted all the same.

    Examples
    --------
    >>> import pliant
    >>> faces = pliant.synthetic.faces(12, seed=1, image_size=64)
    >>> model = pliant.train(faces, size=30, shape_modes=(1, 3), confidence=False, progress=False)
    >>> found = pliant.fit(model, faces[0], faces[0].points() + 1)
    >>> found.points.shape, found.ok
    ((68, 2), True)

    """
    if isinstance(starts, str):
        changes, starts = {**changes, "start": starts}, None
    fitter = make_fitter(model, settings, jobs=jobs, trace=trace, confidence=confidence, **changes)
    one = is_one_image(images)
    every = [cast(ImageSource, images)] if one else cast(Iterable[ImageSource], images)
    rescan = None
    if starts is None:
        work: Iterable[Work] = searched(fitter, every)
        rescan = rescan_of(model, fitter.settings)
    else:
        work = (
            [(every[0], start_of_one(starts))] if isinstance(every, list) and one else paired(every, starts)
        )
    count = 1 if one else len(images) if isinstance(images, Sized) else None
    results = list(fit_all(fitter, work, count, rescan=rescan))
    return results[0] if one else results


def searched(fitter: Fitter, images: Iterable[ImageSource]) -> Iterator[Work]:
    """Each image with the function that finds its starts, as the fitter's settings say."""
    if fitter.settings.start == "landmarks":
        return ((image, partial(known_landmarks, image)) for image in images)
    find = find_starts(fitter.model, fitter.settings)
    return ((image, find) for image in images)


@overload
def fit_all(
    fitter: Fitter,
    work: Iterable[Work],
    count: int | None = ...,
    block: int | None = ...,
    *,
    rescan: Rescan | None = ...,
) -> Generator[FitResult, None, None]: ...


@overload
def fit_all(
    fitter: Fitter,
    work: Iterable[Work],
    count: int | None = ...,
    block: int | None = ...,
    *,
    rescan: Rescan | None = ...,
    then: Callable[[int, FitResult, Image | None], Outcome],
) -> Generator[Outcome, None, None]: ...


def fit_all(
    fitter: Fitter,
    work: Iterable[Work],
    count: int | None = None,
    block: int | None = None,
    *,
    rescan: Rescan | None = None,
    then: Callable[[int, FitResult, Image | None], Any] | None = None,
) -> Generator[Any, None, None]:
    """Fits of any number of images, in order; few blocks of them are under way, and images are read by threads.

    `then` is given the number, the fit and the image, None if it could not be read, by the thread that fitted it;
    what it returns is yielded in place of the fit, and what it raises ends the run. Whatever else goes wrong with
    an image is a fit with the status `failed` and a reason.

    The last bits of a fit depend on the others in its block. Blocks begin at the same images however many threads
    there are; their size follows from `count`, the number of images, if that is known.
    """
    pending: Iterator[tuple[int, Work]] = enumerate(work)
    few = list(islice(pending, BLOCK))
    if count is None and len(few) < BLOCK:
        count = len(few)
    size = block or (BLOCK if count is None else max(1, min(BLOCK, count // BLOCK)))
    pending = chain(few, pending)
    first = list(islice(pending, size))
    threads = fitter.jobs if count == 1 else 1
    one = partial(_fit_block, fitter, threads=threads, rescan=rescan, then=then)
    # Here and not in the blocks: OpenBLAS did not listen to threads other than the first.
    with one_blas_thread():
        if first:
            _ = fitter.prepared  # made once, not by every thread
        pool = ThreadPoolExecutor(fitter.jobs)
        ahead: deque[Future[list[Any]]] = deque()
        try:
            while first:
                ahead.append(pool.submit(one, first))
                first = list(islice(pending, size))
                if len(ahead) > 2 * fitter.jobs:
                    yield from ahead.popleft().result()
            while ahead:
                yield from ahead.popleft().result()
        finally:
            # Left early by Ctrl-C or an error: blocks that have not begun need not.
            pool.shutdown(cancel_futures=True)


def _fit_block(
    fitter: Fitter,
    work: Sequence[tuple[int, Work]],
    *,
    threads: int,
    rescan: Rescan | None,
    then: Callable[[int, FitResult, Image | None], Any] | None,
) -> list[Any]:
    images: list[Image | Exception] = []
    for _, (source, _) in work:
        try:
            images.append(read(source))
        except Exception as error:
            images.append(error)
    results = _fit_images(fitter, images, [start for _, (_, start) in work], threads)
    if rescan is not None:
        unsure = [
            k
            for k, (image, result) in enumerate(zip(images, results, strict=True))
            if not isinstance(image, Exception) and result.confidence(rescan.bound) < rescan.below
        ]
        again = _fit_images(fitter, [images[k] for k in unsure], [rescan.find] * len(unsure), threads)
        for k, other in zip(unsure, again, strict=True):
            if other.confidence(rescan.bound) > results[k].confidence(rescan.bound):
                results[k] = other
    if then is None:
        return results
    seen = (None if isinstance(image, Exception) else image for image in images)
    return [
        then(number, result, image) for (number, _), result, image in zip(work, results, seen, strict=True)
    ]


def _fit_images(
    fitter: Fitter, images: Sequence[Image | Exception], starts: Sequence[StartSource], threads: int
) -> list[FitResult]:
    """Fits of images, or of the reasons why they could not be read, whatever goes wrong with one."""
    results: list[FitResult | None] = [None] * len(images)
    ready: dict[int, tuple[Image, Floats]] = {}
    for k, (image, start) in enumerate(zip(images, starts, strict=True)):
        try:
            if isinstance(image, Exception):
                raise image
            ready[k] = image, start(image) if callable(start) else start
        except Exception as error:
            results[k] = _failed(fitter, error)
    try:
        several = fitter.block(
            [image for image, _ in ready.values()], [start for _, start in ready.values()], threads
        )
    except Exception:
        # One image did it. The others are fitted all the same.
        several = [_fit_alone(fitter, image, start, threads) for image, start in ready.values()]
    for k, result in zip(ready, several, strict=True):
        results[k] = result
    return [result for result in results if result is not None]


def _fit_alone(fitter: Fitter, image: Image, start: Floats, threads: int) -> FitResult:
    try:
        return fitter.block([image], [start], threads)[0]
    except Exception as error:
        return _failed(fitter, error)


def _failed(fitter: Fitter, error: Exception) -> FitResult:
    expected = isinstance(error, (ValueError, OSError))
    reason = str(error) if expected else f"an unexpected {type(error).__name__}: {error}"
    return failed(fitter.model, str(fitter.algorithm), None, reason)
