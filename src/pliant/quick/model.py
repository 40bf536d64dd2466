"""A quick model: what was learned from the images that are finished, and what it makes of the next one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Concise, Float64, Floats, Image
from pliant.experts.linear import LinearExpert, Look, brought_together, sighted
from pliant.experts.patches import Window, window
from pliant.experts.posterior import about_the_shape
from pliant.experts.sightings import Sightings
from pliant.fitting.guided import shape_of_sightings
from pliant.fitting.landmarks import landmark_term
from pliant.shape import SIMILARITY, ShapeModel, Similarity, align
from pliant.shape.conditional import Belief, followed, prior_belief
from pliant.starts.filtering import answers, layers, peaks, turns_of
from pliant.starts.filters import ObjectFilter
from pliant.starts.placement import Placement, image_box, placed
from pliant.threads import one_blas_thread

_HELD = 1e-4
"""The deviation of a point that a person has fixed, in sizes of the object."""

_FINDS, _LEAST = 3, -0.5
"""Places that the object filter may propose, and what it must answer there at the least."""

_ANSWERS = 4.0
"""How many times as strange as usual it is if filters answer nothing, where they would."""

_LOST = 2.0
"""A proposal that is stranger than so many times the usual has lost the object."""

_BESIDE = 1.5 * np.concatenate([np.eye(4), -np.eye(4)])
"""Where it is looked for then, in spreads of the usual place along x, y, size and angle."""

_FREE = (0.3, 0.2, 0.2)
"""Deviations of shift, growth and turn where nothing is known about the pose."""


@dataclass(frozen=True, eq=False, repr=False)
class QuickModel(Concise):
    """What sees an object after a few images: filters for landmarks, shapes, and usual places.

    Attributes
    ----------
    landmarks
        How many landmarks the object has.
    kept
        `(k,)`: those that some image had; of the others nothing is known. All else is about these.
    expert
        Their filters, from coarse to fine.
    shape, noise
        Their shapes, of size 1, and how far landmarks lie from these, `(k, 2, 2)`.
    placement
        Where the object is in its images.
    object_filter
        What finds it, if it has no usual place.
    smallest
        The size of the smallest object, of the shorter side of its image.
    unsure
        `(k,)`: what variances are multiplied with to be those of errors on images that were left out.
    error
        The median error on these, in sizes of the object.
    usual
        How strange nine in ten of these are at most.
    answer
        What filters answer to these.
    samples
        How many images it was learned from.

    """

    landmarks: int
    kept: NDArray[np.int64]
    expert: LinearExpert
    shape: ShapeModel
    noise: Float64
    placement: Placement
    object_filter: ObjectFilter | None
    smallest: float
    unsure: Float64
    error: float
    usual: float
    answer: float
    samples: int


class Start(NamedTuple):
    """Where to begin: a shape `(k, 2)`, and landmarks `numbers (f,)` that a person holds at `places (f, 2)`."""

    shape: Float64
    numbers: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
    places: Float64 = np.zeros((0, 2))


@dataclass(frozen=True, eq=False, repr=False)
class Seen(Concise):
    """What a model makes of an image: a `belief` about the landmarks that it knows, and how `strange` that is.

    It is strange where what filters see is far from all shapes that are plausible, or where they see little.
    """

    belief: Belief
    strange: float


def propose(model: QuickModel, image: Image, fixed: Mapping[int, Floats] | None = None) -> Seen:
    """What a model believes about an object in an image, with landmarks that a person has `fixed` held there.

    Parameters
    ----------
    model
        From a `Learner`.
    image
        `(h, w)` or `(h, w, 3)`.
    fixed
        Places `(2,)` in it by numbers of landmarks, as `model.kept` has them.

    """
    with one_blas_thread():
        return _proposed(model, image, fixed or {})


def _proposed(model: QuickModel, image: Image, fixed: Mapping[int, Floats]) -> Seen:
    numbers = np.array(sorted(fixed), dtype=np.int64)
    places = np.array([fixed[int(k)] for k in numbers], dtype=np.float64).reshape(-1, 2)

    def look(start: Float64) -> Seen | None:
        if len(numbers):
            start = followed(_free(model, start), numbers, places).points
        return _seen_from(model, image, Start(start, numbers, places))

    found = [seen for seen in map(look, _starts(model, image)) if seen is not None]
    best = min(found, key=lambda one: one.strange, default=None)
    if best is not None and best.strange > _LOST * model.usual:
        # Filters have seen something else: from beside the usual place they may see the object.
        box = image_box(image)
        beside = (look(placed(model.placement, box, model.shape.mean, moved)) for moved in _BESIDE)
        other = min((one for one in beside if one is not None), key=lambda one: one.strange, default=best)
        best = other if other.strange < best.strange / 2 else best
    if best is not None:
        return best
    usual = placed(model.placement, image_box(image), model.shape.mean)
    return Seen(followed(_free(model, usual), numbers, places), np.inf)


def wide_belief(model: QuickModel, points: Floats) -> Belief:
    """What would be believed of an object at `points (k, 2)` if the image had not been looked at."""
    free = _free(model, points)
    return Belief(np.asarray(points, dtype=np.float64), free.factor, free.noise)


def _free(model: QuickModel, start: Floats) -> Belief:
    return prior_belief(model.shape, model.noise, align(model.shape.mean, start), *_FREE)


def _starts(model: QuickModel, image: Image) -> list[Float64]:
    """Shapes where the object may be: the usual place, and what its filter finds, if it has one."""
    starts = [placed(model.placement, image_box(image), model.shape.mean)]
    found = model.object_filter
    if found is None:
        return starts
    finds: list[tuple[float, Float64]] = []
    for layer in layers(found, image, turns_of(found), 0.7 * model.smallest):
        values, places = peaks(answers(found, layer.channels), _LEAST)
        best = np.argsort(-values, kind="stable")[:_FINDS]
        finds += [(float(values[k]), layer.shape_at(found.shape, *places[k])) for k in best]
    finds.sort(key=lambda one: -one[0])
    return [*(shape for _, shape in finds[:_FINDS]), *starts]


def _seen_from(model: QuickModel, image: Image, start: Start) -> Seen | None:
    part = window(image, start.shape, max(layer.size for layer in model.expert.filters))
    look = in_layers(
        model.expert, part, Start(part.to_window(start.shape), start.numbers, part.to_window(start.places))
    )
    if look is None:
        return None
    scale = np.asarray(1 / part.scale + 0j)
    sightings = sightings_in(look).moved(Similarity(scale, np.asarray(complex(*part.origin))))
    seen = believed(model, sightings, start)
    return Seen(
        seen.belief, seen.strange + _ANSWERS * model.usual * max(0.0, 1 - answer_of(look) / model.answer)
    )


def answer_of(look: Looked) -> float:
    """What filters answer on average, where they answer most: little where there is no object."""
    return float(np.mean(np.max(look.look.values, axis=(1, 2))))


class Looked(NamedTuple):
    """Where filters see landmarks `(k, 2)` in a view, with covariances `(k, 2, 2)`, and the shape in the window."""

    points: Float64
    covariance: Float64
    look: Look
    shape: Float64


def in_layers(expert: LinearExpert, part: Window, start: Start) -> Looked | None:
    """What filters see in a window, from coarse to fine; None where they cannot look."""
    found: Looked | None = None
    for layer in expert.filters:
        shape = start.shape if found is None else found.shape
        seen = sighted(expert, layer, part, shape)
        if seen is None:
            return None
        points, covariance, look = seen
        points[start.numbers] = look.view.to_view(start.places)
        covariance[start.numbers] = (_HELD * layer.size) ** 2 * np.eye(2)
        found = Looked(points, covariance, look, brought_together(expert, layer, points, covariance, look))
    return found


def in_layer(expert: LinearExpert, part: Window, shape: Float64) -> Looked | None:
    """What the filters of an expert see from a shape `(k, 2)` in the window."""
    return in_layers(expert, part, Start(shape))


def sightings_in(look: Looked) -> Sightings:
    """What is seen in a view, in pixels of the window."""
    view = look.look.view
    cosine, sine = np.cos(view.angle), np.sin(view.angle)
    turn = np.array([[cosine, -sine], [sine, cosine]])
    precision = view.scale**2 * (turn @ np.linalg.inv(look.covariance) @ turn.T)
    return Sightings(view.to_image(look.points)[None], precision[None])


def believed(model: QuickModel, sightings: Sightings, start: Start) -> Seen:
    """What sightings of one object say about its landmarks, together with its shapes.

    The shape has a posterior, in which sightings count as often as they err by themselves: neighbours err together.
    A landmark then lies between its place in the shape and where it is seen, as `experts.posterior` has it.
    """
    shape, noise, trust = model.shape, model.noise, model.expert.filters[-1].trust
    fitted, weights = shape_of_sightings(shape, noise, sightings, start.shape[None])
    place = align(shape.mean, fitted[0])
    heard = sightings.moved(place.inverse())
    said = about_the_shape(heard, noise)
    counted = weights * trust
    counted[:, start.numbers] = weights[:, start.numbers]
    term = landmark_term(shape, Sightings(said.points, said.precision * counted[:, :, None, None]))
    prior = np.concatenate([np.zeros(SIMILARITY), 1 / shape.eigenvalues])
    matrix = term.hessian[0] + np.diag(prior)
    matrix += 1e-9 * float(np.max(np.diag(matrix))) * np.eye(len(matrix))
    parameters = np.linalg.solve(matrix, term.linear[0])
    instance = shape.instance(parameters)
    apart = heard.points[0] - instance
    open_part = np.linalg.inv(np.eye(2) + noise @ (heard.precision[0] * weights[0][:, None, None]))
    points = instance + ((np.eye(2) - open_part) @ apart[:, :, None])[:, :, 0]
    root = np.linalg.inv(np.linalg.cholesky(matrix)).T
    rows = open_part @ (shape.basis @ root).reshape(len(points), 2, -1)
    alone = open_part @ noise
    scale = np.sqrt(model.unsure)[:, None, None]
    belief = Belief(
        points,
        (scale * rows).reshape(2 * len(points), -1),
        scale**2 * (alone + np.swapaxes(alone, 1, 2)) / 2,
    )
    distances = np.einsum("vi,vij,vj->v", apart, said.precision[0], apart)
    unlike = np.sum(parameters[SIMILARITY:] ** 2 / shape.eigenvalues) / max(shape.modes, 1)
    strange = float(np.mean(np.minimum(distances, 9.0)) / 2 + unlike) / 2
    return Seen(belief.moved(place), strange)
