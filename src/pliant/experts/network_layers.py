"""The network of a network expert, layer by layer, for whatever writes its layers down or runs them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Value = TypeVar("Value")
"""What goes from layer to layer: maps, or the name of what they will be."""


class Layers(Protocol[Value]):
    """What a network is made of. Convolutions have weights by name, and keep the size of maps without a stride."""

    def convolution(self, x: Value, name: str, stride: int = 1) -> Value: ...

    def rectified(self, x: Value) -> Value: ...

    def added(self, one: Value, other: Value) -> Value: ...

    def halved(self, x: Value) -> Value:
        """The largest of every two by two values."""
        ...

    def joined(self, coarse: Value, fine: Value) -> Value:
        """The channels of maps, made twice as large by repeating their values, before those of fine ones."""
        ...


def layers_of(weights: Mapping[str, NDArray[np.float32]]) -> tuple[int, int]:
    """How many layers a network has on its way down, and up."""
    down, up = (
        1 + max(int(name.split(".")[1]) for name in weights if name.startswith(f"{side}."))
        for side in ("down", "up")
    )
    return down, up


def through_network(
    layers: Layers[Value], window: Value, weights: Mapping[str, NDArray[np.float32]]
) -> Value:
    """The logits for a window."""

    def block(x: Value, name: str) -> Value:
        around = layers.convolution(x, f"{name}.skip") if f"{name}.skip.weight" in weights else x
        inner = layers.rectified(layers.convolution(x, f"{name}.a"))
        return layers.rectified(layers.added(layers.convolution(inner, f"{name}.b"), around))

    down, up = layers_of(weights)
    x, seen = layers.convolution(window, "stem", stride=2), []
    for number in range(down):
        x = block(layers.halved(x) if number else x, f"down.{number}")
        seen.append(x)
    for number, fine in enumerate(seen[-2 : -2 - up : -1]):
        x = block(layers.joined(x, fine), f"up.{number}")
    return layers.convolution(x, "head")
