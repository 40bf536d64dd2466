"""Endpoints of the page Fit: images that are sent, fits as background work, and their pictures and files."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal
from urllib.parse import quote
from weakref import WeakKeyDictionary

import cv2
import numpy as np
from starlette.responses import Response

from pliant.arrays import Float64, Image
from pliant.data.annotation import Annotation
from pliant.data.formats import find_format, formats, write_annotations
from pliant.data.images import image_size, read_image
from pliant.data.tables import coordinate_titles
from pliant.fitting.algorithm import Algorithm
from pliant.model import Model
from pliant.settings import Fitting
from pliant.settings.declaring import options
from pliant.starts.detectors import DETECTORS
from pliant.studio.desk import Studio
from pliant.studio.fits.runs import MOST_ALGORITHMS, Run, Runs, Task
from pliant.studio.fits.views import (
    Declared,
    KnownAlgorithm,
    RunView,
    declared_settings,
    known_algorithms,
    run_view,
)
from pliant.studio.web.endpoints import Endpoints, Refused
from pliant.studio.web.pictures import as_picture, encoded
from pliant.studio.web.uploads import Uploads
from pliant.table import COLUMNS, cells_of, columns_of

endpoints = Endpoints("fit")

_MOST = {"iterations": 1000, "tries": 50, "hypotheses": 200}
"""What a page may ask for, so that no fit takes forever: nothing ends one but its last iteration."""

_RESIDUAL = 0.5
"""The difference from black to white is 1; this much, and more, is the brightest colour of a residual."""


@dataclass
class Bench:
    """What this page keeps for a studio."""

    uploads: Uploads
    runs: Runs


_benches: WeakKeyDictionary[Any, Bench] = WeakKeyDictionary()


def bench_of(studio: Studio) -> Bench:
    """The images and runs of a studio."""
    return _benches.setdefault(studio, Bench(Uploads(), Runs()))


@dataclass(frozen=True)
class Fittings:
    """What fits can be made with: algorithms, the model's own first, settings, and formats of landmark files."""

    algorithms: list[KnownAlgorithm]
    settings: list[Declared]
    formats: list[str]
    most: int


@dataclass(frozen=True)
class Uploaded:
    """An image that was sent; `id` is what fits name it by."""

    id: str
    name: str
    width: int
    height: int


@dataclass(frozen=True)
class NewFit:
    """What to fit: an image that was sent (`upload`) or one of the collection (`image`).

    `box` is left, top, right, bottom; without one the object is looked for. Settings are values by name, or texts
    as the command line takes them; an algorithm that is empty is the model's own.
    """

    upload: str | None = None
    image: int | None = None
    box: tuple[float, float, float, float] | None = None
    algorithms: list[str] | None = None
    settings: dict[str, Any] | None = None


@endpoints.get("/api/fitting")
def fittings(studio: Studio) -> Fittings:
    """Available algorithms, settings and formats."""
    own = Fitting().suited_to(studio.model().settings, len(studio.model().levels)).algorithm
    return Fittings(known_algorithms(own), declared_settings(), list(formats()), MOST_ALGORITHMS)


@endpoints.post("/api/uploads")
def take_upload(studio: Studio, upload: bytes, name: str = "image") -> Uploaded:
    """Upload an image to fit; it is kept for a while, in memory only."""
    one = bench_of(studio).uploads.take(upload, name)
    return Uploaded(one.id, one.name, one.image.shape[1], one.image.shape[0])


@endpoints.get("/api/uploads/{id}/picture")
def upload_picture(studio: Studio, id: str, width: int | None = None) -> Response:
    """An uploaded image, in a format for browsers."""
    picture = as_picture(bench_of(studio).uploads.find(id).image)
    return Response(encoded(picture, _width(width)), media_type="image/jpeg")


@endpoints.post("/api/fits")
def new_fit(studio: Studio, body: NewFit) -> RunView:
    """Start fitting an image with up to four algorithms from the same start."""
    model = studio.model()
    settings = _settings(body.settings or {})
    own = settings.suited_to(model.settings, len(model.levels)).algorithm
    names = tuple(dict.fromkeys(str(Algorithm.parse(name or own)) for name in body.algorithms or [""]))
    if len(names) > MOST_ALGORITHMS:
        raise ValueError(f"at most {MOST_ALGORITHMS} algorithms can be compared at once, not {len(names)}.")
    box = None if body.box is None else _box(body.box)
    if body.upload is not None:
        task = _of_upload(studio, body.upload, model, settings, names, box)
        if settings.start == "landmarks" and box is None:
            raise ValueError("this image has no landmarks yet: draw a box, or choose a search.")
    elif body.image is not None:
        task = _of_collection(studio, body.image, model, settings, names, box)
    else:
        raise ValueError("there is no image to fit: drop one here, or choose one from the collection.")
    return run_view(bench_of(studio).runs.start(task, studio.jobs))


@endpoints.get("/api/fits/{id}")
def fit_so_far(studio: Studio, id: int) -> RunView:
    """The finished fits of a run."""
    return run_view(_run(studio, id))


@endpoints.get("/api/fits/{id}/picture")
def fit_picture(
    studio: Studio, id: int, of: Literal["image", "reconstruction", "residual"] = "image", fit: int = 0
) -> Response:
    """The image, its reconstruction, or their difference, within the `crop` of the run."""
    run = _run(studio, id)
    _, _, window = run.window()
    picture = window
    if of != "image":
        result = run.find(fit)
        picture = run.task.model.reconstruct(window, run.in_window(result.points))
    if of == "residual":
        picture = _heat(np.abs(picture - window).mean(axis=2))
    return Response(
        encoded(as_picture(picture)), media_type="image/jpeg", headers={"Cache-Control": "no-store"}
    )


@endpoints.get("/api/fits/{id}/overlay")
def fit_overlay(studio: Studio, id: int, fit: int = 0) -> Response:
    """The whole image with the landmarks of a fit drawn on it, as PNG."""
    run = _run(studio, id)
    # Here, as it takes a second to import, and most studios never draw one.
    from pliant.plots.painter import encoded as painted_file
    from pliant.plots.painter import paint_overlay

    painted = paint_overlay(run.task.read(), run.find(fit).points)
    return _file(painted_file(painted, ".png"), "image/png", f"{_stem(run)}-overlay.png")


@endpoints.get("/api/fits/{id}/points")
def fit_points(studio: Studio, id: int, fit: int = 0, format: str = "pts") -> Response:
    """The landmarks of a fit as a file in any format that pliant can write."""
    run, (module, _) = _run(studio, id), find_format(format)
    result = run.find(fit)
    name = f"{_stem(run)}{module.EXTENSIONS[0]}"
    found = Annotation(
        run.task.name,
        result.points,
        names=run.task.model.landmark_names,
        size=run.task.size,
        hidden=result.hidden,
    )
    with TemporaryDirectory() as folder:
        # A name of our own: that of an upload may be anything.
        path = Path(folder) / f"points{module.EXTENSIONS[0]}"
        write_annotations(path, [found], format)
        content = path.read_bytes()
    return _file(content, "application/octet-stream", name)


@endpoints.get("/api/fits/{id}/table")
def fit_table(studio: Studio, id: int) -> Response:
    """All fits of a run as a CSV table, with the usual columns of a table of fits."""
    run = _run(studio, id)
    columns = [name for name in columns_of("fits") if COLUMNS[name].type != "landmarks"]
    text = StringIO()
    rows = csv.writer(text)
    titles = coordinate_titles(run.task.model.landmarks, run.task.model.landmark_names)
    rows.writerow([*columns, "algorithm", "error", *titles])
    for view, fit in zip(run_view(run).fits, run.fits, strict=True):
        cells = cells_of(run.task.name, fit, run.task.size, number=view.object)
        points = [""] * len(titles) if cells["x"] is None else np.ravel([cells["x"], cells["y"]], order="F")
        rows.writerow([*(cells[name] for name in columns), fit.algorithm, view.error, *points])
    return _file(text.getvalue().encode(), "text/csv; charset=utf-8", f"{_stem(run)}-fits.csv")


def _run(studio: Studio, id: int) -> Run:
    return bench_of(studio).runs.find(id)


def _settings(given: dict[str, Any]) -> Fitting:
    """Settings from values, or from texts as the command line has them; a text that is empty is not given."""
    kinds = {name: kind for name, _, kind, _ in options(Fitting())}

    def parsed(name: str, value: Any) -> Any:
        text = value.strip() if isinstance(value, str) else "none"
        return value if text == "none" or name not in kinds else kinds[name].parse(text)

    settings = Fitting.from_dict({name: parsed(name, value) for name, value in given.items() if value != ""})
    if settings.detector not in (None, *DETECTORS):
        raise Refused(
            f"detector: pages may only use {', '.join(DETECTORS)}, because any other detector is a file that "
            "would be run as code.",
            403,
        )
    for name, most in _MOST.items():
        value = getattr(settings, name)
        if max(np.atleast_1d(0 if value is None else value)) > most:
            raise ValueError(f"{name}: at most {most} is allowed here; with more, a fit would take too long.")
    return settings


def _box(given: tuple[float, float, float, float]) -> Float64:
    left, top, right, bottom = given
    if right - left < 1 or bottom - top < 1:
        raise ValueError("the box is empty: right must be greater than left, and bottom greater than top.")
    return np.array(given)


def _of_upload(
    studio: Studio, id: str, model: Model, settings: Fitting, names: tuple[str, ...], box: Float64 | None
) -> Task:
    uploads = bench_of(studio).uploads
    image, name = uploads.find(id).image, uploads.find(id).name
    size = image.shape[1], image.shape[0]
    # By its id: a run that held the image itself would keep it for as long as the run is kept.
    return Task(
        name, size, f"/api/uploads/{id}/picture", lambda: uploads.find(id).image, model, settings, names, box
    )


def _of_collection(
    studio: Studio, index: int, model: Model, settings: Fitting, names: tuple[str, ...], box: Float64 | None
) -> Task:
    entry, truth = studio.entry(index), studio.collection.marks(index).points
    known = truth.shape == (model.landmarks, 2) and bool(np.all(np.isfinite(truth)))
    return Task(
        entry.key,
        image_size(entry.source),
        f"/api/images/{index}/picture",
        lambda: read_image(entry.source),
        model,
        settings,
        names,
        box,
        truth if known else None,
    )


def _heat(difference: Float64) -> Image:
    """Differences `(h, w)` as colours, black where there is none."""
    levels = np.clip(difference / _RESIDUAL * 255 + 0.5, 0, 255).astype(np.uint8)
    return np.ascontiguousarray(cv2.applyColorMap(levels, cv2.COLORMAP_INFERNO)[:, :, ::-1])


def _width(width: int | None) -> int | None:
    if width is not None and width < 1:
        raise ValueError(f"a picture cannot be {width} pixels wide.")
    return width


def _stem(run: Run) -> str:
    return Path(run.task.name).stem or "image"


def _file(content: bytes, media: str, name: str) -> Response:
    return Response(
        content,
        media_type=media,
        headers={
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
            "Cache-Control": "no-store",
        },
    )
