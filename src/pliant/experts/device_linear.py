"""Linear experts on a device: the objects of a batch take each step together, and have filters laid together."""

from __future__ import annotations

import numpy as np

from pliant.appearance.device_pictures import Int64, Pictures, Windows
from pliant.appearance.view import can_be_looked_at
from pliant.arrays import Float64
from pliant.devices import Tensor, exact_products, memory_for_parts, on_device
from pliant.experts.device_patches import (
    Surroundings,
    answers,
    bytes_for_answers,
    bytes_for_window,
    can_be_seen,
    corners_of,
    described,
    look_at,
    surroundings,
    windows_about,
)
from pliant.experts.linear import Filters, LinearExpert, Look, Step, brought_together, moved_by, seen_by
from pliant.experts.patches import margin_of
from pliant.experts.sightings import Sightings, moved_precision
from pliant.namespace import beside, inverses
from pliant.shape.procrustes import Similarity, align


def look_with_filters(expert: LinearExpert, pictures: Pictures, which: Int64, shapes: Float64) -> Sightings:
    """Look at pictures `which (B,)` about shapes `(B, v, 2)`, as `LinearExpert.look` does: tensors there."""
    import torch

    device, finest = pictures.pixels.device, expert.finest
    points = on_device(np.where(np.isfinite(shapes), shapes, 0.0), device)
    precision = torch.zeros((*shapes.shape, 2), dtype=torch.float64, device=device)
    rows = np.flatnonzero(can_be_looked_at(expert.mean * finest, shapes, pictures.sizes[which].max(axis=1)))
    if not len(rows):
        return Sightings(points, precision)
    windows = windows_about(pictures, which[rows], shapes[rows], finest)
    # Windows of one part are all as large as the largest: those that are alike go together.
    ordered = np.argsort(windows.sizes.prod(axis=1), kind="stable")
    count = -(-len(rows) // max(1, int(memory_for_parts(device) / _bytes(expert, pictures, windows))))
    for part in np.array_split(ordered, count):
        at = on_device(rows[part], device)
        parts = surroundings(pictures, windows.of(part))
        found, sure, fine = _seen(expert, parts, parts.to_window(points[at]))
        points[at] = torch.where(fine[:, None, None], parts.to_image(found), points[at])
        precision[at] = torch.where(
            fine[:, None, None, None], sure * parts.scales.square()[:, None, None, None], 0.0
        )
    return Sightings(points, precision)


def _bytes(expert: LinearExpert, pictures: Pictures, windows: Windows) -> int:
    laid = [
        bytes_for_answers(expert.mean, one.size, one.grid, one.spacing, one.reach) for one in expert.filters
    ]
    return bytes_for_window(pictures, windows) + max(laid)


def _seen(expert: LinearExpert, parts: Surroundings, shapes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Points `(n, v, 2)` and precisions `(n, v, 2, 2)` in windows, and at which objects it sees anything `(n,)`."""
    fine = shapes.new_ones(len(shapes)).bool()
    for step in expert.steps:
        shapes, fine = _held(expert, parts, shapes, fine)
        shapes = _stepped(expert, step, parts, shapes)
    for layer in expert.filters:
        shapes, fine = _held(expert, parts, shapes, fine)
        found = _answered(expert, layer, parts, shapes)
        points, covariance = seen_by(layer, found)
        shapes = brought_together(expert, layer, points, covariance, found)
    view = found.view
    from_view = Similarity((1j * view.angles).exp() / view.scales, 0j * view.scales)
    return view.to_image(points), moved_precision(inverses(covariance), from_view), fine


def _held(expert: LinearExpert, parts: Surroundings, shapes: Tensor, fine: Tensor) -> tuple[Tensor, Tensor]:
    """Shapes that can be looked at, and which of them count: a batch has no holes, and the mean fills them."""
    import torch

    fine = fine & can_be_seen(parts, shapes, expert.mean, align(expert.mean, shapes))
    return torch.where(fine[:, None, None], shapes, beside(expert.mean, shapes)), fine


def _stepped(expert: LinearExpert, step: Step, parts: Surroundings, shapes: Tensor) -> Tensor:
    """Shapes `(n, v, 2)` of windows after a step of the regression."""
    margin = (step.grid - 1) / 2 * step.spacing + 1
    views, _ = look_at(parts, shapes, expert.mean, step.size, margin)
    seen = described(views, shapes, step.grid, step.spacing)
    with exact_products():
        parameters = seen @ beside(step.weights, seen) + beside(step.offset, seen)
    return moved_by(expert.basis, shapes, align(expert.mean, shapes), parameters)


def _answered(expert: LinearExpert, layer: Filters, parts: Surroundings, shapes: Tensor) -> Look:
    """What the filters answer about the landmarks of shapes `(n, v, 2)` in windows."""
    grid, spacing, reach = layer.grid, layer.spacing, layer.reach
    views, centres = look_at(parts, shapes, expert.mean, layer.size, margin_of(grid, spacing, reach))
    corners = corners_of(views, shapes, grid, spacing, reach)
    values = answers(views, corners, layer.weights, layer.offset, spacing, reach)
    return Look(values, (corners + (grid - 1) * spacing // 2).double(), views, centres)
