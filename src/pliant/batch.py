"""Fitting any number of images: found, fitted in blocks side by side, tried in other ways where in doubt, in order.

This is the only place where images are fitted by several threads. `pliant.fit`, runs to disk, evaluations,
experiments and calibration differ in where images and starts come from, and in what becomes of a fit.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from math import prod
from pathlib import Path
from typing import Any, TypeVar, cast, overload

from pliant.arrays import Floats, Image
from pliant.devices import ON_TORCH, DeviceFailed
from pliant.fitting.fitter import Fitter, make_fitter
from pliant.fitting.result import FitResult, failed
from pliant.fitting.status import Status
from pliant.inputs import (
    ImageSource,
    StartSource,
    is_one_image,
    name_of,
    paired,
    read,
    require_file,
    start_of_one,
)
from pliant.model import Model, as_model
from pliant.objects import Hunt, said
from pliant.settings import Fitting
from pliant.starts.choice import Chain, find_chain
from pliant.starts.known import known_landmarks
from pliant.terminal import shortened
from pliant.threads import one_blas_thread, short_turns

BLOCK = 8
"""Most images that are fitted together: so many share what is read of the model."""

_BLOCK_ON_DEVICE = 2048
"""The same on a device: to start what it does takes the host as long for one image as for a thousand."""

_UNDER_WAY = 3
"""Blocks for a device at a time: one is copied to it, one is fitted, and of one the results are made."""

_MOST_BYTES = 2**31
"""The most memory that the images of a block take on a device, where all are given the room of the largest."""

_TOGETHER = 4
"""Images that a thread reads in one go: so many that it matters little what it takes to hand them over."""

Outcome = TypeVar("Outcome")

Item = TypeVar("Item")

Work = tuple[ImageSource, StartSource | Chain]

Begun = tuple[int, Hunt | str]
"""The number of an image, and what is looked for in it, or why it could not be read."""


class NotFitted(UserWarning):
    """Warns that some of the fits that `pliant.fit` was asked for failed, and names their images and the reasons.

    Examples
    --------
    An image or a start could not be used, or nothing was found. All others are fitted all the same. If a failure
    should stop your program, turn the warning into an error:

    >>> import pliant, warnings
    >>> model = pliant.load("faces.pliant")
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", pliant.NotFitted)
    ...     pliant.fit(model, ["new.jpg", "knew.jpg"])
    Traceback (most recent call last):
    pliant.batch.NotFitted: 1 of 2 images could not be fitted: knew.jpg: there is no such image.

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
        cannot be used, or nothing is found, the result has the status `failed`, a reason and no points (nan), a
        warning (`NotFitted`) names it, and the others are fitted all the same.

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
    unread: set[int] = set()

    def noted(number: int, result: FitResult, image: Image | None) -> FitResult:
        if image is None:
            unread.add(number)
        return result

    results = list(fit_all(fitter, work, count, then=noted))
    reasons = [
        reason
        for number, result in enumerate(results)
        if (reason := _why_failed(result, "" if one else _called(images, number, number in unread)))
    ]
    if reasons:
        warnings.warn(_about_failed(reasons, len(results)), NotFitted, stacklevel=2)
    return results[0] if one else results


def _called(images: Any, number: int, unread: bool) -> str:
    """What a sentence about an image begins with: its name or number; one that was not read may name it already."""
    name = name_of(images[number]) if isinstance(images, Sequence) else ""
    return f"image {number}" if not name else "" if unread else name


def _why_failed(result: FitResult, name: str) -> str:
    """Why there is no fit of an image, or of one of its objects; empty if there is."""
    for number, fit in enumerate(result.objects):
        if fit.status is Status.FAILED:
            which = f"object {number}" if result.others else ""
            return ": ".join(filter(None, [name, which, fit.reason]))
    return ""


def _about_failed(reasons: Sequence[str], images: int) -> str:
    if images == 1:
        return f"the image could not be fitted: {reasons[0]}"
    told = " ".join(shortened(reasons, "see the reason of each result"))
    return f"{len(reasons):,} of {images:,} images could not be fitted: {told}"


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
    there are; their size follows from `count`, the number of images, if that is known. For a device they are as
    large as its memory allows, and threads read the next images while it fits those before.
    """
    pending: Iterator[tuple[int, Work]] = enumerate(work)
    few = list(islice(pending, BLOCK))
    if count is None and len(few) < BLOCK:
        count = len(few)
    pending, threads = chain(few, pending), fitter.jobs if count == 1 else 1
    # Here and not in the blocks: OpenBLAS did not listen to threads other than the first.
    with one_blas_thread():
        if few:
            _ = fitter.prepared  # made once, not by every thread
        if fitter.settings.device in ON_TORCH:
            yield from _fit_on_device(fitter, pending, then)
            return
        size = block or (BLOCK if count is None else max(1, min(BLOCK, count // BLOCK)))

        def one(some: Sequence[tuple[int, Work]]) -> list[Any]:
            return _fit_block(fitter, _begun(fitter, some), threads, then, map)

        with _pool(fitter.jobs) as pool:
            yield from _in_order(pool, one, _parts(pending, size), 2 * fitter.jobs)


def _fit_on_device(
    fitter: Fitter,
    pending: Iterator[tuple[int, Work]],
    then: Callable[[int, FitResult, Image | None], Any] | None,
) -> Iterator[Any]:
    """The same on a device: threads read images ahead of it, and it goes on while results are made."""
    under_way = min(_UNDER_WAY, fitter.jobs)
    with short_turns(), _pool(fitter.jobs) as readers, _pool(under_way) as fitters:

        def one(some: Sequence[Begun]) -> list[Any]:
            return _fit_block(fitter, some, 1, then, readers.map)

        yield from _in_order(fitters, one, _read_ahead(fitter, pending, readers), under_way)


@contextmanager
def _pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Threads; what they have not begun when they are left, by Ctrl-C or an error, they need not."""
    pool = ThreadPoolExecutor(threads)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _in_order(
    pool: ThreadPoolExecutor, one: Callable[[Any], list[Any]], blocks: Iterable[Any], most: int
) -> Iterator[Any]:
    """What threads make of each block, in order; at most so many are under way while one is waited for."""
    ahead: deque[Future[list[Any]]] = deque()
    for block in blocks:
        ahead.append(pool.submit(one, block))
        if len(ahead) > most:
            yield from ahead.popleft().result()
    while ahead:
        yield from ahead.popleft().result()


def _parts(pending: Iterator[Item], size: int) -> Iterator[list[Item]]:
    return iter(lambda: list(islice(pending, size)), [])


def _read_ahead(
    fitter: Fitter, pending: Iterator[tuple[int, Work]], readers: ThreadPoolExecutor
) -> Iterator[list[Begun]]:
    """Blocks for a device, of images that threads have read; those of the next block are read while one is fitted.

    A block ends where its images would take too much memory. It depends on the images alone.
    """
    parts, reading = _parts(pending, _TOGETHER), deque[Future[list[Begun]]]()
    block: list[Begun] = []
    largest, window = (1, 1, 1), 0
    while True:
        missing = max(2 * fitter.jobs, window // _TOGETHER) - len(reading)
        reading.extend(readers.submit(_begun, fitter, part) for part in islice(parts, missing))
        if not reading:
            break
        for one in reading.popleft().result():
            own = _sides(one[1])
            sides = max(largest[0], own[0]), max(largest[1], own[1]), max(largest[2], own[2])
            room = min(_BLOCK_ON_DEVICE, _MOST_BYTES // prod(sides))
            if block and len(block) >= room:
                yield block
                block, sides = [], own
            block.append(one)
            # As many as make a block are read ahead, and no more.
            largest, window = sides, room
    if block:
        yield block


def _sides(hunt: Hunt | str) -> tuple[int, int, int]:
    """Height, width and bytes of a pixel of an image that was read."""
    if isinstance(hunt, str):
        return 1, 1, 1
    height, width, *channels = hunt.image.shape
    return height, width, hunt.image.itemsize * prod(channels)


def _begun(fitter: Fitter, work: Sequence[tuple[int, Work]]) -> list[Begun]:
    """Images, read to be fitted, or what is wrong with them."""
    judged = fitter.keep_evidence and fitter.model.confidence is not None
    begun: list[Begun] = []
    for number, (source, start) in work:
        try:
            begun.append((number, Hunt(read(source), start, fitter.settings, judged)))
        except MemoryError:
            raise
        except Exception as error:
            begun.append((number, said(error)))
    return begun


def _fit_block(
    fitter: Fitter,
    begun: Sequence[Begun],
    threads: int,
    then: Callable[[int, FitResult, Image | None], Any] | None,
    each: Callable[..., Iterable[Any]],
) -> list[Any]:
    """What `fit_all` yields for some images; `each` is `map`, or that of threads that look for starts."""
    going = [hunt for _, hunt in begun if isinstance(hunt, Hunt)]
    while going:
        # To hand over what is known anyway takes longer than to look at it.
        ask = map if all(hunt.knows_its_start for hunt in going) else each
        starts = list(ask(Hunt.next_starts, going))
        tasks = [(hunt.image, start) for hunt, some in zip(going, starts, strict=True) for start in some]
        fits = iter(_fit_groups(fitter, tasks, threads))
        for hunt, some in zip(going, starts, strict=True):
            hunt.fits += islice(fits, len(some))
        going = [hunt for hunt, some in zip(going, starts, strict=True) if some]
    outcomes = []
    for number, one in begun:
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
    most = _BLOCK_ON_DEVICE if fitter.settings.device in ON_TORCH else BLOCK
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
