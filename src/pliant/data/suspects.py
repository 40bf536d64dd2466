"""Samples that are valid and yet look wrong: a person should see them before a model is trained on them.

Landmarks are judged by a Gaussian model of the shapes of the other samples: what remains of a landmark after the
others have said where it should be, against what usually remains of it. No threshold here depends on the object:
they were chosen on training sets of faces, chest radiographs and fly wings, where about one sample in a hundred is
flagged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pliant.appearance.tones import as_grey
from pliant.arrays import Float32, Float64
from pliant.data.annotation import Annotation
from pliant.data.dataset import Dataset, Sample
from pliant.data.landmark_names import differing_names, usual_names
from pliant.data.validation import Validated, numbered
from pliant.shape import align, generalised_procrustes, shape_size
from pliant.shape.facing import Bools, facing_alike, find_mirrored
from pliant.shape.missing import complete
from pliant.shape.pdm import similarity_vectors
from pliant.threads import one_blas_thread

CHECKS = ("facing", "order", "shape", "size", "rotation", "names", "blank", "duplicate", "turned")

FEWEST = 20
"""So many samples tell what is usual; among fewer, images alone are looked at."""

_FOLDS = 10
_VARIANCE = 0.95
_LANDMARK, _SHAPE = 6.5, 2.7
"""How many times the usual a landmark may be off, and all landmarks together."""

_SPREADS = 6.0
"""How many (robust) standard deviations size and rotation may be from the usual."""

_LEAST_TURN = np.radians(45)
_LEAST_GROWTH = np.log(1.5)
_CONTRAST = 0.004
"""The standard deviation of grey values, from 0 to 1, below which an object cannot be seen."""

_ALIKE = 0.96
"""The correlation of two thumbnails, less what all samples have in common, beyond which they are one picture."""

_THUMBNAIL = 40


@dataclass(frozen=True)
class Suspect:
    """What is suspicious about sample `number`: one of `CHECKS`, in words, and the landmarks that stand out.

    `severity` is 1 at the threshold and larger beyond it. `other` is the sample that it repeats, if any.
    """

    number: int
    name: str
    check: str
    reason: str
    severity: float
    landmarks: tuple[int, ...] = ()
    other: str = ""


def find_suspects(
    valid: Validated,
    skip: Collection[str] = (),
    jobs: int = 1,
    advance: Callable[[], None] = lambda: None,
) -> list[Suspect]:
    """Suspicious samples, the worst first; `skip` names checks to leave out."""
    unknown = sorted(set(skip) - set(CHECKS))
    if unknown:
        raise ValueError(f"there is no check '{unknown[0]}'. Known: {', '.join(CHECKS)}.")
    if not len(valid.dataset):
        return []
    mirrored = find_mirrored(valid.points)
    shapes = complete(valid.points)
    found = list(_facing(valid.dataset, mirrored))
    if len(shapes) >= FEWEST:
        alike = facing_alike(shapes, mirrored)
        with one_blas_thread():
            mean, _ = generalised_procrustes(alike)
            disordered = list(_order(valid.dataset, alike, mean))
            found += disordered
            if "shape" not in skip:
                known = ~np.isnan(valid.points[:, :, 0])
                found += _shape(valid.dataset, alike, known, {suspect.number for suspect in disordered})
        found += [*_size(valid.dataset, alike), *_rotation(valid.dataset, alike, mean)]
    found = [suspect for suspect in found if suspect.check not in skip]
    if "names" not in skip:
        found += _names(valid.dataset)
    if "blank" not in skip or "duplicate" not in skip:
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            pictures = []
            for picture in pool.map(_thumbnail, valid.dataset, shapes):
                pictures.append(picture)
                advance()
        thumbnails = np.array(pictures)
        if "blank" not in skip:
            found += _blank(valid.dataset, thumbnails)
        if "duplicate" not in skip:
            found += _duplicates(valid.dataset, thumbnails)
    return sorted(found, key=lambda suspect: -suspect.severity)


def _names(dataset: Dataset) -> Iterator[Suspect]:
    """Landmarks that are called otherwise than in most samples: they are told apart by their order alone."""
    known = [
        (number, sample.annotation())
        for number, sample in enumerate(dataset)
        if isinstance(sample.points_source, (Path, str, Annotation))
    ]
    annotations = [annotation for _, annotation in known]
    for index, reason in differing_names(annotations, usual_names(annotations)).items():
        number = known[index][0]
        yield Suspect(number, dataset[number].name, "names", reason, 1.0)


def _facing(dataset: Dataset, mirrored: Bools) -> Iterator[Suspect]:
    for number in np.flatnonzero(mirrored):
        reason = "the object faces the other way: it is mirrored, not turned."
        yield Suspect(int(number), dataset[int(number)].name, "facing", reason, 1.0)


def _order(dataset: Dataset, shapes: Float64, mean: Float64) -> Iterator[Suspect]:
    """Landmarks that fit the mean far better in a mirror, or from the last to the first."""
    others = {
        "left and right look swapped: in a mirror, the landmarks fit": shapes * (-1, 1),
        "the order looks reversed: from the last to the first, the landmarks fit": shapes[:, ::-1],
        "the order looks reversed and mirrored: turned round, the landmarks fit": shapes[:, ::-1] * (-1, 1),
    }
    plain = _distance(shapes, mean)
    usual = float(np.median(plain))
    distances = np.array([_distance(other, mean) for other in others.values()])
    for number in np.flatnonzero((plain > 3 * usual) & (distances.min(axis=0) < 0.5 * plain)):
        best = int(np.argmin(distances[:, number]))
        ratio = float(plain[number] / distances[best, number])
        reason = f"{list(others)[best]} {ratio:.1f} times better."
        yield Suspect(int(number), dataset[int(number)].name, "order", reason, 10 + ratio)


def _distance(shapes: Float64, mean: Float64) -> Float64:
    """Root-mean-square distances `(k,)` of shapes `(k, v, 2)` from the mean, as far as poses explain them."""
    placed = align(shapes, mean).apply(shapes)
    return np.asarray(np.sqrt(np.mean(np.sum((placed - mean) ** 2, axis=-1), axis=-1)))


def _shape(
    dataset: Dataset, shapes: Float64, known: np.ndarray, disordered: Collection[int]
) -> Iterator[Suspect]:
    """Landmarks far from where the others let expect them."""
    fold_of = np.random.default_rng(0).permutation(len(shapes)) % _FOLDS
    teaching = ~np.isin(np.arange(len(shapes)), list(disordered))
    scores = np.zeros(shapes.shape[:2])
    # Twice: the second time, samples that stood out in the first do not teach the model.
    for _ in range(2):
        models = [_gaussian(shapes[teaching & (fold_of != fold)]) for fold in range(_FOLDS)]
        for fold, (mean, covariance) in enumerate(models):
            scores[fold_of == fold] = _scores(mean, covariance, shapes[fold_of == fold])
        usual = np.maximum(np.median(scores[teaching], axis=0), 1e-9)
        relative = np.where(known, scores / usual, 0.0)
        worst = relative.max(axis=1) / _LANDMARK
        overall = np.sqrt(np.mean(relative**2, axis=1)) / _SHAPE
        teaching &= np.maximum(worst, overall) < 1
    for number in np.flatnonzero(np.maximum(worst, overall) >= 1):
        if number in disordered:
            continue
        mean, covariance = models[fold_of[number]]
        outliers = _outliers(mean, covariance, shapes[number], known[number], usual)
        if outliers:
            which = (
                f"landmarks {numbered(outliers)} are" if len(outliers) > 1 else f"landmark {outliers[0]} is"
            )
            them = "them" if len(outliers) > 1 else "it"
            times = f"{relative[number].max():.1f} times the usual"
            reason = f"{which} far from where the others would have put {them}, {times}."
        else:
            reason = f"the whole shape is unusual: off by {overall[number] * _SHAPE:.1f} times the usual."
        severity = float(max(worst[number], overall[number]))
        yield Suspect(int(number), dataset[int(number)].name, "shape", reason, severity, tuple(outliers))


def _gaussian(shapes: Float64) -> tuple[Float64, Float64]:
    """Mean `(v, 2)` and covariance `(2v, 2v)` of shapes in the mean's frame; any pose is as good as any other."""
    mean, _ = generalised_procrustes(shapes)
    aligned = align(mean, shapes).inverse().apply(shapes)
    mean = aligned.mean(axis=0)
    deviations = (aligned - mean).reshape(len(shapes), -1)
    variances, vectors = np.linalg.eigh(deviations.T @ deviations / (len(shapes) - 1))
    variances, vectors = np.clip(variances[::-1], 0, None), vectors[:, ::-1]
    total = max(float(np.sum(variances)), 1e-12)
    kept = min(int(np.searchsorted(np.cumsum(variances) / total, _VARIANCE)) + 1, (len(shapes) - 1) // 2)
    noise = max(float(np.sum(variances[kept:])) / max(1, mean.size - 4 - kept), 1e-9)
    similarity = similarity_vectors(mean)
    covariance = (vectors[:, :kept] * np.clip(variances[:kept] - noise, 0, None)) @ vectors[:, :kept].T
    return mean, covariance + noise * np.eye(mean.size) + 100 * similarity @ similarity.T


def _scores(mean: Float64, covariance: Float64, shapes: Float64) -> Float64:
    """How far each landmark `(k, v)` is from what the others let expect, in standard deviations.

    With P the inverse covariance, landmark i given all others has the covariance C = P_ii⁻¹ and is off by
    C (P d)_i, d being all deviations from the mean.
    """
    placed = align(mean, shapes).inverse().apply(shapes)
    precision = np.linalg.inv(covariance)
    numbers = np.arange(len(mean))
    own = precision.reshape(len(mean), 2, len(mean), 2)[numbers, :, numbers]
    pulled = ((placed - mean).reshape(len(shapes), -1) @ precision).reshape(placed.shape)
    return np.asarray(np.sqrt(np.einsum("kvi,vij,kvj->kv", pulled, np.linalg.inv(own), pulled) / 2))


def _outliers(
    mean: Float64, covariance: Float64, shape: Float64, known: np.ndarray, usual: Float64
) -> list[int]:
    """The landmarks that stand out, one after the other: each that is found no longer misleads the rest."""
    left = np.flatnonzero(known)
    found: list[int] = []
    while len(left) > max(3, len(mean) // 2):
        coordinates = np.stack([2 * left, 2 * left + 1], axis=1).ravel()
        part = covariance[np.ix_(coordinates, coordinates)]
        relative = _scores(mean[left], part, shape[None, left])[0] / usual[left]
        worst = int(np.argmax(relative))
        if relative[worst] < _LANDMARK:
            break
        found.append(int(left[worst]))
        left = np.delete(left, worst)
    return sorted(found)


def _size(dataset: Dataset, shapes: Float64) -> Iterator[Suspect]:
    sizes = shape_size(shapes)
    usual = float(np.median(sizes))
    for number, severity in _far_out(np.log(sizes / usual), _LEAST_GROWTH):
        size = sizes[number]
        what = "large" if size > usual else "small"
        reason = f"the object is very {what}: {size:.0f} pixels, where {usual:.0f} are usual."
        yield Suspect(number, dataset[number].name, "size", reason, severity)


def _rotation(dataset: Dataset, shapes: Float64, mean: Float64) -> Iterator[Suspect]:
    turns = np.exp(1j * align(mean, shapes).angle)
    centre = complex(np.median(turns.real), np.median(turns.imag))
    angles = np.angle(turns / (centre or 1))
    for number, severity in _far_out(angles, _LEAST_TURN):
        reason = f"the object is turned by {np.degrees(angles[number]):+.0f} degrees from the usual."
        yield Suspect(number, dataset[number].name, "rotation", reason, severity)


def _far_out(values: Float64, least: float) -> Iterator[tuple[int, float]]:
    """Numbers of the values far from the median, by the spread of most of them, and how far beyond the limit."""
    away = np.abs(values - np.median(values))
    limit = max(_SPREADS * 1.4826 * float(np.median(away)), least)
    for number in np.flatnonzero(away > limit):
        yield int(number), float(away[number] / limit)


def _thumbnail(sample: Sample, points: Float64) -> Float32:
    """The object in grey from 0 to 1, `(40, 40)`."""
    import cv2

    image = sample.image()
    low, high = points.min(axis=0), points.max(axis=0)
    margin = 0.1 * (high - low)
    height, width = image.shape[:2]
    left, top = np.clip(np.floor(low - margin), 0, (width - 2, height - 2)).astype(int)
    right, bottom = np.clip(np.ceil(high + margin) + 1, (left + 2, top + 2), (width, height)).astype(int)
    part = as_grey(image[top:bottom, left:right])
    return np.asarray(cv2.resize(part, (_THUMBNAIL, _THUMBNAIL), interpolation=cv2.INTER_AREA))


def _blank(dataset: Dataset, thumbnails: Float32) -> Iterator[Suspect]:
    contrast = thumbnails.std(axis=(1, 2))
    for number in np.flatnonzero(contrast < _CONTRAST):
        reason = "the image is nearly blank where the object should be."
        severity = float(_CONTRAST / max(contrast[number], _CONTRAST / 10))
        yield Suspect(int(number), dataset[int(number)].name, "blank", reason, severity)


def _duplicates(dataset: Dataset, thumbnails: Float32) -> Iterator[Suspect]:
    """Samples that show an earlier one's picture, also if it was cropped, compressed or mirrored."""
    seen = np.flatnonzero(thumbnails.std(axis=(1, 2)) >= _CONTRAST)
    pictures = thumbnails[seen]
    plain, mirrored = _without_common(pictures), _without_common(pictures[:, :, ::-1])
    for row in range(1, len(seen)):
        # Against earlier ones alone, so that of two that are alike the second is the suspect.
        alike = plain[:row] @ plain[row]
        turned = mirrored[:row] @ plain[row]
        twin = int(np.argmax(np.maximum(alike, turned)))
        if max(alike[twin], turned[twin]) > _ALIKE:
            how = "is the same picture as" if alike[twin] >= turned[twin] else "is a mirrored copy of"
            likeness = float(max(alike[twin], turned[twin]))
            yield _duplicate(dataset, int(seen[row]), int(seen[twin]), how, likeness)


def _duplicate(dataset: Dataset, number: int, other: int, how: str, alike: float) -> Suspect:
    one, twin = dataset[number], dataset[other]
    leak = ""
    if one.split != twin.split:
        leak = f", and they are in different parts ({one.split or 'none'}, {twin.split or 'none'})"
    elif one.group != twin.group:
        leak = f", and they are in different groups ({one.group or 'none'}, {twin.group or 'none'})"
    severity = alike / _ALIKE + (1 if leak else 0)
    near = twin.name.rsplit("/", 1)[-1]
    return Suspect(number, one.name, "duplicate", f"{how} {near}{leak}.", severity, other=twin.name)


def _without_common(pictures: Float32) -> Float32:
    """Pictures `(n, 40, 40)` as rows of length 1 without their mean, contrast, and what they have in common."""
    rows = pictures.reshape(len(pictures), -1)
    rows = rows - rows.mean(axis=1, keepdims=True)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows -= rows.mean(axis=0)
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6), dtype=np.float32)
