"""Fitting any number of images: found, fitted in blocks side by side, tried in other ways where in doubt, in order.

This is the only place where images are fitted by several threads. `pliant.fit`, runs to disk, evaluations,
experiments and calibration differ in where images and starts come from, and in what becomes of a fit.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar, cast, overload

from pliant.arrays import Floats, Image
from pliant.devices import ON_TORCH, DeviceFailed
from pliant.fitting.fitter import Fitter, make_fitter
from pliant.fitting.result import FitResult, failed
from pliant.inputs import ImageSource, StartSource, is_one_image, paired, read, require_file, start_of_one
from pliant.model import Model, as_model
from pliant.objects import Hunt, said
from pliant.settings import Fitting
from pliant.starts.choice import Chain, find_chain
from pliant.starts.known import known_landmarks
from pliant.terminal import shortened
from pliant.threads import one_blas_thread

BLOCK = 8
"""Most images that are fitted together: so many share what is read of the model."""

_BLOCK_ON_DEVICE = 1024
"""The same on a device: to start what it does takes the host as long for one image as for a thousand."""

_READERS = 8
"""Threads that read images for a device, at most: each holds a block of them."""

Outcome = TypeVar("Outcome")

Work = tuple[ImageSource, StartSource | Chain]


class NotFitted(UserWarning):
    """Warns that some of the images given to `pliant.fit` could not be read or used, and names them.

    Examples
    --------
    The other images are fitted all the same. If one that is missing should stop your program, turn the warning
    into an error:

    >>> import pliant, warnings
    >>> model = pliant.load("faces.pliant")
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", pliant.NotFitted)
    ...     pliant.fit(model, ["new.jpg", "knew.jpg"])
    Traceback (most recent call last):
    pliant.batch.NotFitted: 1 of 2 images could not be used: knew.jpg: there is no such image.

    """


@overload
def fit(
    model: Model | Path | str,
    images: ImageSource,
    starts: StartSource | str | None = None,
    settings: Fitting | None = None,
    **rest: Any,
) -> FitResult: ...


@overload
def fit(
    model: Model | Path | str,
    images: Iterable[ImageSource],
    starts: Iterable[StartSource] | Callable[[Image], Floats] | str | None = None,
    settings: Fitting | None = None,
    **rest: Any,
) -> list[FitResult]: ...


def fit(
    model: Model | Path | str,
    images: ImageSource | Iterable[ImageSource],
    starts: StartSource | Iterable[StartSource] | str | None = None,
    settings: Fitting | None = None,
    *,
    jobs: int | None = None,
    trace: bool = True,
    confidence: bool | None = None,
    **changes: Any,
) -> FitResult | list[FitResult]:
    """Fit a model to one image or to many.

    Parameters
    ----------
    model : Model, str or Path
        The model to fit, or its file. To fit several times, load it once with `pliant.load`.
    images : str, Path, Sample or array, or an iterable of them
        One image is a file, a sample, or an array `(h, w)` or `(h, w, 3)`. Many images are a data set, an array
        `(n, h, w)` or `(n, h, w, 3)`, or any other iterable.
    starts : array, str, callable, an iterable of them, or None
        Where fits begin. None: they are found as `settings.start` says. A string is such a way of finding them.
        For one image, give a shape `(v, 2)` or a box (left, top, right, bottom); several tries for one object,
        `(k, v, 2)` or `(k, 4)`, of which the best fit is kept; or starts of n objects with one more axis, `(n, k,
        v, 2)` or `(n, k, 4)`, or a list of n arrays: `boxes[:, None]` is one object for each box. Or give a
        function from the image to these. For many images, give one for each, or one function for all.
    settings : Fitting or None
        How to fit; `Fitting()` by default.
    jobs : int or None
        Threads that fit blocks of images side by side; all cores by default.
    trace : bool
        Keep every iteration. Without it, `po-inv-gn` is faster, because it computes its cost only at the end.
    confidence : bool or None
        Collect evidence and the covariance, which costs about one iteration. By default it does so if the model is
        calibrated.
    **changes
        Settings by their names, in place of those in `settings`: `fit(model, images, algorithm="po-asy-gn")`.

    Returns
    -------
    FitResult or list of FitResult
        A result for one image, or a list for many, in their order. A result is the most confident fit in the
        image; its `others` are the fits of further objects, and `objects` has all of them. If an image or a start
        cannot be used, its result has the status `failed` and a reason, a warning (`NotFitted`) names it, and the
        others are fitted all the same.

    Raises
    ------
    pliant.data.ImageError
        If the name of a single image is not that of a file.

    Examples
    --------
    >>> import pliant
    >>> model, faces = pliant.load("faces.pliant"), pliant.load_dataset("photographs/")[:3]
    >>> found = pliant.fit(model, faces[0], faces[0].points() + 1)
    >>> found.points.shape, found.ok
    ((68, 2), True)
    >>> len(pliant.fit(model, faces, "centre", iterations=5))
    3

    """
    if isinstance(starts, str):
        changes, starts = {**changes, "start": starts}, None
    fitter = make_fitter(as_model(model), settings, jobs=jobs, trace=trace, confidence=confidence, **changes)
    one = is_one_image(images)
    if isinstance(images, (str, Path)):
        require_file(images)
    every = [cast(ImageSource, images)] if one else cast(Iterable[ImageSource], images)
    if starts is None:
        work: Iterable[Work] = searched(fitter, every)
    else:
        work = (
            [(every[0], start_of_one(starts))] if isinstance(every, list) and one else paired(every, starts)
        )
    count = 1 if one else len(images) if isinstance(images, Sized) else None
    unused: dict[int, str] = {}

    def noted(number: int, result: FitResult, image: Image | None) -> FitResult:
        if image is None:
            unused[number] = result.reason
        return result

    results = list(fit_all(fitter, work, count, then=noted))
    if unused:
        reasons = [unused[number] for number in sorted(unused)]
        warnings.warn(_about_unused(reasons, len(results)), NotFitted, stacklevel=2)
    return results[0] if one else results


def _about_unused(reasons: Sequence[str], images: int) -> str:
    if images == 1:
        return f"the image could not be used: {reasons[0]}"
    told = " ".join(shortened(reasons, "see the reason of each result"))
    return f"{len(reasons):,} of {images:,} images could not be used: {told}"


def searched(fitter: Fitter, images: Iterable[ImageSource]) -> Iterator[Work]:
    """Each image with the ways in which its starts are found, as the fitter's settings say."""
    if fitter.settings.start == "landmarks":
        return ((image, partial(known_landmarks, image)) for image in images)
    chain = find_chain(fitter.model, fitter.settings)
    return ((image, chain) for image in images)


@overload
def fit_all(
    fitter: Fitter,
    work: Iterable[Work],
    count: int | None = ...,
    block: int | None = ...,
) -> Generator[FitResult, None, None]: ...


@overload
def fit_all(
    fitter: Fitter,
    work: Iterable[Work],
    count: int | None = ...,
    block: int | None = ...,
    *,
    then: Callable[[int, FitResult, Image | None], Outcome],
) -> Generator[Outcome, None, None]: ...


def fit_all(
    fitter: Fitter,
    work: Iterable[Work],
    count: int | None = None,
    block: int | None = None,
    *,
    then: Callable[[int, FitResult, Image | None], Any] | None = None,
) -> Generator[Any, None, None]:
    """Fits of any number of images, in order; few blocks of them are under way, and images are read by threads.

    `then` is given the number, the fit and the image, None if it could not be read, by the thread that fitted it;
    what it returns is yielded in place of the fit, and what it raises ends the run. So do a device that fails and
    a lack of memory. Whatever else goes wrong with an image is a fit with the status `failed` and a reason.

    Starts that are given for several objects give a fit each. A `Chain` of ways is tried, the cheapest first, until
    a fit is trusted, or as many as `objects` in the settings.

    The last bits of a fit depend on the others in its block. Blocks begin at the same images however many threads
    there are; their size follows from `count`, the number of images, if that is known.
    """
    pending: Iterator[tuple[int, Work]] = enumerate(work)
    few = list(islice(pending, BLOCK))
    if count is None and len(few) < BLOCK:
        count = len(few)
    most, threads_most = _limits(fitter)
    size = block or (BLOCK if count is None else max(1, min(BLOCK, count // BLOCK)))
    if most > BLOCK:
        size = most if count is None else max(1, min(most, count))
    pending = chain(few, pending)
    first = list(islice(pending, size))
    threads = fitter.jobs if count == 1 else 1
    one = partial(_fit_block, fitter, threads=threads, then=then)
    # Here and not in the blocks: OpenBLAS did not listen to threads other than the first.
    with one_blas_thread():
        if first:
            _ = fitter.prepared  # made once, not by every thread
        pool = ThreadPoolExecutor(threads_most)
        ahead: deque[Future[list[Any]]] = deque()
        try:
            while first:
                ahead.append(pool.submit(one, first))
                first = list(islice(pending, size))
                if len(ahead) > 2 * threads_most:
                    yield from ahead.popleft().result()
            while ahead:
                yield from ahead.popleft().result()
        finally:
            # Left early by Ctrl-C or an error: blocks that have not begun need not.
            pool.shutdown(cancel_futures=True)


def _limits(fitter: Fitter) -> tuple[int, int]:
    """How many images are fitted together, and how many threads there are for blocks of them, at most."""
    if fitter.settings.device in ON_TORCH:
        return _BLOCK_ON_DEVICE, min(fitter.jobs, _READERS)
    return BLOCK, fitter.jobs


def _fit_block(
    fitter: Fitter,
    work: Sequence[tuple[int, Work]],
    *,
    threads: int,
    then: Callable[[int, FitResult, Image | None], Any] | None,
) -> list[Any]:
    judged = fitter.keep_evidence and fitter.model.confidence is not None
    hunts: list[Hunt | str] = []
    for _, (source, start) in work:
        try:
            hunts.append(Hunt(read(source), start, fitter.settings, judged))
        except MemoryError:
            raise
        except Exception as error:
            hunts.append(said(error))
    going = [hunt for hunt in hunts if isinstance(hunt, Hunt)]
    while going:
        starts = [hunt.next_starts() for hunt in going]
        tasks = [(hunt.image, start) for hunt, some in zip(going, starts, strict=True) for start in some]
        fits = iter(_fit_groups(fitter, tasks, threads))
        for hunt, some in zip(going, starts, strict=True):
            hunt.fits += islice(fits, len(some))
        going = [hunt for hunt, some in zip(going, starts, strict=True) if some]
    outcomes = []
    for (number, _), one in zip(work, hunts, strict=True):
        result = one.result() if isinstance(one, Hunt) else None
        if result is None:
            reason = one if isinstance(one, str) else " ".join(dict.fromkeys(one.reasons))
            result = failed(fitter.model, str(fitter.algorithm), None, reason)
        image = one.image if isinstance(one, Hunt) else None
        outcomes.append(result if then is None else then(number, result, image))
    return outcomes


def _fit_groups(fitter: Fitter, tasks: Sequence[tuple[Image, Floats]], threads: int) -> list[FitResult]:
    """Fits of images from starts, whatever goes wrong with one; an image comes once for each object in it."""
    fits: list[FitResult] = []
    most, _ = _limits(fitter)
    for first in range(0, len(tasks), most):
        some = tasks[first : first + most]
        try:
            fits += fitter.block([image for image, _ in some], [start for _, start in some], threads)
        except DeviceFailed:
            raise
        except Exception:
            # One image did it. The others are fitted all the same.
            fits += [_fit_alone(fitter, image, start, threads) for image, start in some]
    return fits


def _fit_alone(fitter: Fitter, image: Image, start: Floats, threads: int) -> FitResult:
    try:
        return fitter.block([image], [start], threads)[0]
    except (DeviceFailed, MemoryError):
        # The image is not to blame: a run that goes on later may well fit it.
        raise
    except Exception as error:
        return failed(fitter.model, str(fitter.algorithm), None, said(error))
