"""Fits of very many images on a device, as arrays: one start for each, from coarse to fine, and nothing else.

`Fitter` does more for every image (several starts, experts, evidence, a result of its own), which takes the host a
fraction of a millisecond. Where a device fits thousands of images a second, that is too much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pliant.appearance.device_pictures import Pictures
from pliant.appearance.device_views import can_be_looked_at
from pliant.arrays import Concise, Float64, Floats
from pliant.fitting.fitter import Fitter
from pliant.fitting.looking import views_at
from pliant.fitting.loop import iterate
from pliant.fitting.preparation import first_coordinates
from pliant.fitting.status import Status
from pliant.namespace import beside, on_host


@dataclass(frozen=True, eq=False, repr=False)
class DeviceFits(Concise):
    """Where B fits ended: `points (B, v, 2)` in their images, costs `(B,)`, and status and iterations of each."""

    points: Float64
    costs: Float64
    statuses: list[Status]
    iterations: list[int]


def fit_pictures(fitter: Fitter, pictures: Pictures, which: Any, starts: Floats) -> DeviceFits:
    """Fits to pictures `which (B,)` that lie on the fitter's device, from starts `(B, v, 2)`.

    What is lost at a coarse level has the status `diverged`, and stays where it was lost.
    """
    import torch

    device = pictures.pixels.device
    points = torch.as_tensor(np.asarray(starts, dtype=np.float64), device=device)
    largest = torch.as_tensor(pictures.sizes[np.asarray(which)].max(axis=1), device=device)
    lost = torch.zeros(len(points), dtype=torch.bool, device=device)
    for (level, subspace, problem), limit in zip(fitter.prepared, fitter.iterations, strict=True):
        mean = beside(level.shape.mean, points)
        lost |= ~can_be_looked_at(level.shape.mean, points, largest)
        # A batch has no holes: what is lost is fitted from anywhere, and that does not count.
        here = torch.where(lost[:, None, None], mean, points)
        views = views_at(level, fitter.model.size, pictures, which, here)
        p = level.shape.project(views.images.to_view(here))
        first = first_coordinates(problem, subspace, views.images, level.shape.instance(p))
        ended = iterate(problem, views.images, p, first, limit, every_cost=False)
        found = views.images.to_image(
            level.shape.instance(torch.as_tensor(ended.shape_parameters, device=device))
        )
        points = torch.where(lost[:, None, None], points, found)
        lost |= torch.tensor([status.lost for status in ended.statuses], device=device)
    statuses = [
        Status.DIVERGED if gone and not status.lost else status
        for gone, status in zip(lost.tolist(), ended.statuses, strict=True)
    ]
    return DeviceFits(on_host(points), np.array(ended.final_costs), statuses, ended.iterations)
