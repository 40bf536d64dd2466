"""The network as an ONNX document, written from its weights alone: what OpenCV's engine reads.

Weights come from a model file, the graph from here, so that nothing that a stranger wrote is ever interpreted. The
format is Protocol Buffers, of which this needs numbers, texts and messages; the fields are those of onnx.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pliant.experts.network_layers import layers_of, through_network

_FLOAT, _FLOAT_ATTRIBUTE, _INT_ATTRIBUTE, _TEXT_ATTRIBUTE, _INTS_ATTRIBUTE = 1, 1, 2, 3, 7
_IR_VERSION, _OPERATORS = 7, 11


def as_onnx(weights: Mapping[str, NDArray[np.float32]], height: int, width: int) -> bytes:
    """The document of a network for windows `(1, 1, height, width)`: from "window" to "logits"."""
    graph = _Graph(weights)
    depth, ups = layers_of(weights)
    through_network(graph, "window", weights)
    landmarks = len(weights["head.weight"])
    contents = graph.written()
    contents += _text(2, "landmarks")
    contents += _message(11, _value("window", (1, 1, height, width)))
    cell = 2 ** (depth - ups)
    contents += _message(12, _value("logits", (1, landmarks, height // cell, width // cell)))
    operators = _text(1, "") + _number(2, _OPERATORS)
    return _number(1, _IR_VERSION) + _message(7, contents) + _message(8, operators)


class _Graph:
    """Nodes and constants, as they are added."""

    def __init__(self, weights: Mapping[str, NDArray[np.float32]]) -> None:
        self.weights = weights
        self.nodes: list[bytes] = []
        self.constants: dict[str, bytes] = {}

    def written(self) -> bytes:
        nodes = b"".join(_message(1, node) for node in self.nodes)
        return nodes + b"".join(_message(5, constant) for constant in self.constants.values())

    def constant(self, name: str, values: NDArray[np.float32] | NDArray[np.float64]) -> str:
        self.constants[name] = _tensor(name, np.asarray(values, dtype=np.float32))
        return name

    def add(
        self, kind: str, inputs: Sequence[str], output: str = "", **attributes: int | str | list[int]
    ) -> str:
        output = output or f"{len(self.nodes)}"
        node = b"".join(_text(1, name) for name in inputs) + _text(2, output)
        node += _text(3, f"{kind}{len(self.nodes)}") + _text(4, kind)
        node += b"".join(_message(5, _attribute(name, value)) for name, value in attributes.items())
        self.nodes.append(node)
        return output

    def convolution(self, x: str, name: str, stride: int = 1) -> str:
        weight = self.weights[f"{name}.weight"]
        inputs = [x, self.constant(f"{name}.weight", weight)]
        if f"{name}.bias" in self.weights:
            inputs.append(self.constant(f"{name}.bias", self.weights[f"{name}.bias"]))
        side = weight.shape[-1]
        pads, strides = [side // 2] * 4, [stride] * 2
        output = "logits" if name == "head" else ""
        return self.add("Conv", inputs, output, kernel_shape=[side] * 2, pads=pads, strides=strides)

    def rectified(self, x: str) -> str:
        return self.add("Relu", [x])

    def added(self, one: str, other: str) -> str:
        return self.add("Add", [one, other])

    def halved(self, x: str) -> str:
        return self.add("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])

    def joined(self, coarse: str, fine: str) -> str:
        wider = self.add(
            "Resize",
            [coarse, self.constant("none", np.zeros(0)), self.constant("twice", np.array([1, 1, 2, 2]))],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
        return self.add("Concat", [wider, fine], axis=1)


def _varint(number: int) -> bytes:
    """A number in groups of seven bits, the lowest first; a set eighth bit says that more follow."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())


def _tensor(name: str, values: NDArray[np.float32]) -> bytes:
    dimensions = b"".join(_number(1, extent) for extent in values.shape)
    raw = np.ascontiguousarray(values, dtype="<f4").tobytes()
    return dimensions + _number(2, _FLOAT) + _text(8, name) + _message(9, raw)


def _value(name: str, shape: Sequence[int]) -> bytes:
    extents = b"".join(_message(1, _number(1, extent)) for extent in shape)
    return _text(1, name) + _message(2, _message(1, _number(1, _FLOAT) + _message(2, extents)))


def _attribute(name: str, value: int | float | str | list[int]) -> bytes:
    if isinstance(value, str):
        content, kind = _text(4, value), _TEXT_ATTRIBUTE
    elif isinstance(value, int):
        content, kind = _number(3, value), _INT_ATTRIBUTE
    elif isinstance(value, float):
        content, kind = _varint(2 << 3 | 5) + struct.pack("<f", value), _FLOAT_ATTRIBUTE
    else:
        content, kind = b"".join(_number(8, entry) for entry in value), _INTS_ATTRIBUTE
    return _text(1, name) + content + _number(20, kind)
