"""Experts that look at many pictures on a device at once, instead of at one image after the other."""

from __future__ import annotations

from pliant.appearance.device_pictures import Int64, Pictures
from pliant.arrays import Float64
from pliant.experts.device_linear import look_with_filters
from pliant.experts.device_network import look_with_network
from pliant.experts.linear import LinearExpert
from pliant.experts.network import NetworkExpert
from pliant.experts.sightings import Expert, Sightings


def looks_on_device(expert: Expert) -> bool:
    """Whether an expert can look at pictures on a device; one that a user wrote sees images on the host."""
    return isinstance(expert, (LinearExpert, NetworkExpert))


def look_on_device(
    expert: Expert, pictures: Pictures, which: Int64, shapes: Float64, number: int
) -> Sightings:
    """What an expert sees in pictures `which (B,)` about `shapes (B, v, 2)`: its `look`, as tensors on the device.

    Parameters
    ----------
    expert
        One that `looks_on_device`.
    pictures
        Images that were uploaded.
    which
        The picture of each object.
    shapes
        About where the landmarks are, on the host.
    number
        The first look is 0.

    """
    if isinstance(expert, LinearExpert):
        return look_with_filters(expert, pictures, which, shapes)
    if isinstance(expert, NetworkExpert):
        return look_with_network(expert, pictures, which, shapes, number)
    raise TypeError(f"an expert of the type {type(expert).__name__} does not look on a device.")
