"""Training of the network expert: PyTorch and NumPy alone, on the CPU or on a GPU.

A network sees one window around the object, upright and at one size, and says for every landmark how likely it is
at every place: a map of logits, of which a softmax over the window makes a probability. It is trained on windows
that are moved, turned, stretched, bent, lit, blurred and covered at random, because a few dozen images are all that
most people have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from pliant.experts.lesson import Lesson

Arrays = dict[str, NDArray[np.float32]]

_RATE, _DECAY, _WARM_UP = 2e-3, 0.1, 100
"""The largest learning rate, the decay of weights, and the steps until that rate is reached."""

_SPREAD = 0.012
"""Standard deviation of the place that a map should show, as a share of the window's side."""

_MAPS, _SURENESS = 0.3, 0.1
"""How much the maps, and the likelihood of the truth under their spread, weigh beside the distance to the truth."""


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.a = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.b = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.a_norm, self.b_norm = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1, bias=False) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        around = x if self.skip is None else self.skip(x)
        return F.relu(self.b_norm(self.b(F.relu(self.a_norm(self.a(x))))) + around)


class Network(nn.Module):
    """From windows `(b, 1, h, w)` to logits `(b, v, h / cell, w / cell)`; sides are multiples of 2^widths.

    A cell is 2 pixels wide, and twice that for each of the `left_out` finest maps on the way up.
    """

    def __init__(self, landmarks: int, widths: Sequence[int], left_out: int = 0) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, widths[0], 5, 2, 2)
        self.down = nn.ModuleList([Block(a, b) for a, b in zip((widths[0], *widths), widths, strict=False)])
        ups = [Block(a + b, b) for a, b in zip(widths[:0:-1], widths[-2::-1], strict=True)]
        self.up = nn.ModuleList(ups[: len(ups) - left_out])
        self.head = nn.Conv2d(widths[left_out], landmarks, 1)

    def forward(self, x: Tensor) -> Tensor:
        x, seen = self.stem(x), []
        for depth, down in enumerate(self.down):
            x = down(F.max_pool2d(x, 2) if depth else x)
            seen.append(x)
        for up, other in zip(self.up, seen[-2::-1], strict=False):
            x = up(torch.cat([F.interpolate(x, scale_factor=2, mode="nearest"), other], 1))
        return self.head(x)


@contextmanager
def some_threads(count: int) -> Iterator[None]:
    """So many threads for PyTorch on the CPU, in here."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train_network(
    lesson: Lesson,
    widths: Sequence[int],
    steps: int,
    *,
    left_out: int = 0,
    batch: int = 32,
    device: str = "cpu",
    seed: int = 0,
    tell: Callable[[int, float], None] | None = None,
) -> Arrays:
    """Weights of a network, with their normalisation folded in, after so many steps.

    `tell` is called with the number of the step and the mean distance to the truth, in pixels of the window.
    """
    # What the caller draws at random afterwards is not decided here.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _trained(lesson, widths, steps, left_out, batch, device, tell)


def _trained(
    lesson: Lesson,
    widths: Sequence[int],
    steps: int,
    left_out: int,
    batch: int,
    device: str,
    tell: Callable[[int, float], None] | None,
) -> Arrays:
    if device != "cpu":
        torch.backends.cudnn.benchmark = True
    material = _Material(lesson, device)
    net, slow = (
        Network(lesson.points.shape[1], widths, left_out).to(device).to(memory_format=torch.channels_last)
        for _ in range(2)
    )
    slow.load_state_dict(net.state_dict())
    moving = [value for value in net.state_dict().values() if value.dtype.is_floating_point]
    averaged = [value for value in slow.state_dict().values() if value.dtype.is_floating_point]
    rate, follow = torch.zeros((), device=device), torch.ones((), device=device)
    fast = {"fused": True, "capturable": True} if device != "cpu" else {}
    optimiser = torch.optim.AdamW(net.parameters(), rate, weight_decay=_DECAY, **fast)

    def step() -> Tensor:
        x, target = _windows(material, torch.randint(len(material.windows), (batch,), device=device))
        with torch.autocast(device, torch.bfloat16, cache_enabled=False):
            logits = net(x.to(memory_format=torch.channels_last))
        loss, distance = _loss(logits.float(), target, lesson)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0, foreach=True)
        optimiser.step()
        with torch.no_grad():
            apart = torch._foreach_sub(moving, averaged)
            torch._foreach_mul_(apart, follow)
            torch._foreach_add_(averaged, apart)
        return distance

    take = step if device == "cpu" else _captured(step)
    for number in range(steps):
        rate.fill_(_RATE * min(1, number / _WARM_UP + 1e-3) * (1 + math.cos(math.pi * number / steps)) / 2)
        # The average follows at once in the beginning, and over the last tenth of all steps in the end.
        follow.fill_(max(10 / steps, 10 / (number + 11)))
        distance = take()
        if tell is not None and (number % 50 == 49 or number == steps - 1):
            tell(number + 1, float(distance))
    return folded(slow)


def _captured(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """A step on a GPU as one launch: its hundreds of small kernels take less time than to ask for them one by one.

    The first few are taken as they are, with a rate of zero, so that everything is there that a graph refers to.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        distance = step()

    def replay() -> Tensor:
        graph.replay()
        return distance

    return replay


class _Material:
    """A lesson on the device that learns from it."""

    def __init__(self, lesson: Lesson, device: str) -> None:
        self.lesson, self.device = lesson, device
        self.windows = torch.from_numpy(lesson.windows).to(device)
        self.points = torch.from_numpy(lesson.points.astype(np.float32)).to(device)
        self.centre = torch.tensor(lesson.centre, dtype=torch.float32, device=device)
        h, w = lesson.height, lesson.width
        self.half = torch.tensor([(w - 1) / 2, (h - 1) / 2], device=device)
        self.left = torch.tensor([-1.0, 1.0], device=device)
        self.mirror = None
        if lesson.mirror is not None:
            self.mirror = torch.tensor(lesson.mirror, dtype=torch.long, device=device)
        rows, columns = torch.arange(h, device=device)[:, None], torch.arange(w, device=device)
        self.grid = torch.stack([columns.expand(h, w), rows.expand(h, w)], -1) - self.half


def centres(
    height: int, width: int, cells: Sequence[int], device: str | torch.device
) -> tuple[Tensor, Tensor]:
    """Where the `cells` (rows, columns) of a map lie in its window: x and y."""
    # A convolution with a stride is centred on the first pixel of each cell; pooling is centred on its cells.
    y, x = (
        torch.arange(count, device=device) * (side / count) + (side / count - 2) / 2
        for side, count in zip((height, width), cells, strict=True)
    )
    return x, y


def _loss(logits: Tensor, target: Tensor, lesson: Lesson) -> tuple[Tensor, Tensor]:
    """What is learned to be small, and the mean distance to the truth."""
    x, y = centres(lesson.height, lesson.width, logits.shape[2:], logits.device)
    logs = F.log_softmax(logits.flatten(2), -1).view(logits.shape)
    p = logs.exp()
    mean = torch.stack([(p.sum(2) * x).sum(-1), (p.sum(3) * y).sum(-1)], -1)
    inside = (target >= 0).all(-1)
    inside &= (target[..., 0] <= lesson.width - 1) & (target[..., 1] <= lesson.height - 1)
    spread = 2 * (_SPREAD * math.sqrt(lesson.height * lesson.width)) ** 2
    across = torch.exp(-((x - target[..., :1]) ** 2) / spread)
    down = torch.exp(-((y - target[..., 1:]) ** 2) / spread)
    across, down = across / (across.sum(-1, keepdim=True) + 1e-6), down / (down.sum(-1, keepdim=True) + 1e-6)
    maps = -torch.einsum("bvyx,bvy,bvx->bv", logs, down, across)
    apart = F.smooth_l1_loss(mean, target, reduction="none").sum(-1) / 2
    each = apart + _MAPS * maps + _SURENESS * _surprise(p, mean, target, x, y)
    count = inside.sum().clamp(min=1)
    distance = (torch.linalg.vector_norm(mean - target, dim=-1).detach() * inside).sum() / count
    return (each * inside).sum() / count, distance


def _surprise(p: Tensor, mean: Tensor, target: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Minus the logarithm of the truth's likelihood under a Gaussian with the mean and the spread of each map."""
    dx, dy = x - mean[..., :1], y - mean[..., 1:]
    xx, yy = (p.sum(2) * dx**2).sum(-1) + 0.25, (p.sum(3) * dy**2).sum(-1) + 0.25
    xy = torch.einsum("bvyx,bvy,bvx->bv", p, dy, dx)
    determinant = (xx * yy - xy**2).clamp(min=1e-3)
    u, v = (target - mean).detach().unbind(-1)
    return 0.5 * torch.log(determinant) + 0.5 * (yy * u**2 - 2 * xy * u * v + xx * v**2) / determinant


def _windows(material: _Material, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Windows `(b, 1, h, w)`, cut at random from the wider ones, and landmarks `(b, v, 2)` in them."""
    lesson, b = material.lesson, len(chosen)
    jitter = lesson.jitter

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, device=material.device) * 2 - 1

    side = lesson.extent * lesson.ratio
    turn, zoom = uniform(b) * jitter.turn, lesson.ratio * torch.exp(uniform(b) * jitter.zoom)
    lean, stretch = uniform(b) * math.pi, torch.exp(uniform(b) * jitter.stretch)
    matrix = zoom[:, None, None] * _turning(turn) @ _stretching(lean, stretch)
    flipped = uniform(b) < 0
    if material.mirror is not None:
        matrix = torch.where(flipped[:, None, None], matrix * material.left, matrix)
    origin = material.centre + uniform(b, 2) * jitter.shift * side
    h, w = lesson.height, lesson.width
    knots = torch.randn(b, 2, 4, 4, device=material.device) * jitter.bend * side
    bend = F.interpolate(knots, size=(h, w), mode="bicubic", align_corners=True)
    where = torch.einsum("hwj,bij->bhwi", material.grid, matrix) + origin[:, None, None]
    pixels = _read(material.windows[chosen][:, None].float() / 255, where + bend.permute(0, 2, 3, 1))
    # Where the bent grid meets the landmarks: found from where it would without the bend, and mended.
    inverse = _inverse(matrix)
    flat = target = torch.einsum("bvj,bij->bvi", material.points[chosen] - origin[:, None], inverse)
    for _ in range(3):
        place = (target / material.half)[:, None]
        there = F.grid_sample(bend, place, padding_mode="border", align_corners=True)[:, :, 0]
        target = flat - torch.einsum("bjv,bij->bvi", there, inverse)
    if material.mirror is not None:
        target = torch.where(flipped[:, None, None], target[:, material.mirror], target)
    return standardised(_disguised(pixels)), target + material.half


def _read(pictures: Tensor, where: Tensor) -> Tensor:
    """Pictures `(b, c, h, w)` at pixel coordinates `(b, y, x, 2)`; beyond the border they go on."""
    h, w = pictures.shape[-2:]
    places = torch.stack([(where[..., 0] + 0.5) / w * 2 - 1, (where[..., 1] + 0.5) / h * 2 - 1], -1)
    return F.grid_sample(pictures, places, padding_mode="border", align_corners=False)


def _inverse(matrix: Tensor) -> Tensor:
    """Inverses of matrices `(b, 2, 2)`; a library's would look whether they exist, which no graph can wait for."""
    (a, b), (c, d) = (row.unbind(-1) for row in matrix.unbind(-2))
    rows = torch.stack([d, -b], -1), torch.stack([-c, a], -1)
    return torch.stack(rows, -2) / (a * d - b * c)[:, None, None]


def _turning(angle: Tensor) -> Tensor:
    c, s = torch.cos(angle), torch.sin(angle)
    return torch.stack([torch.stack([c, -s], -1), torch.stack([s, c], -1)], -2)


def _stretching(lean: Tensor, factor: Tensor) -> Tensor:
    """Longer by a factor along a line that leans, and shorter across it."""
    turning = _turning(lean)
    along = torch.diag_embed(torch.stack([factor, 1 / factor], -1))
    return turning @ along @ turning.transpose(-1, -2)


def _disguised(x: Tensor) -> Tensor:
    """Pictures from 0 to 1 in another light, less sharp, noisy and covered in part."""
    b, _, h, w = x.shape

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, device=x.device) * 2 - 1

    x = x.clamp(0, 1) ** torch.exp(uniform(b, 1, 1, 1) * 0.4)
    rows, columns = torch.linspace(-1, 1, h, device=x.device), torch.linspace(-1, 1, w, device=x.device)
    lit = uniform(b, 1, 1, 1) * rows[:, None] + uniform(b, 1, 1, 1) * columns
    x = x * torch.exp(0.5 * lit)
    soft = F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, 1)
    x = torch.lerp(x, soft, torch.rand(b, 1, 1, 1, device=x.device))
    x = x + torch.randn_like(x) * 0.04 * torch.rand(b, 1, 1, 1, device=x.device)
    for _ in range(2):
        y0, x0 = torch.rand(2, b, 1, 1, device=x.device)
        half = torch.rand(2, b, 1, 1, device=x.device) * 0.18
        r, c = torch.linspace(0, 1, h, device=x.device)[:, None], torch.linspace(0, 1, w, device=x.device)
        covered = ((r - y0).abs() < half[0]) & ((c - x0).abs() < half[1])
        covered = covered & (torch.rand(b, 1, 1, device=x.device) < 0.4)
        x = torch.where(covered[:, None], torch.rand(b, 1, 1, 1, device=x.device), x)
    return x


def standardised(x: Tensor) -> Tensor:
    """Pictures `(b, 1, h, w)` with a mean of 0 and a deviation of 1 each: light and contrast do not count."""
    centred = x - x.mean((1, 2, 3), keepdim=True)
    return centred / (centred.square().mean((1, 2, 3), keepdim=True).sqrt() + 1e-3)


def folded(net: Network) -> Arrays:
    """Weights by name, with each normalisation made part of the convolution before it."""
    arrays: Arrays = {}

    def keep(name: str, weight: Tensor, bias: Tensor | None) -> None:
        arrays[f"{name}.weight"] = weight.detach().float().cpu().contiguous().numpy()
        if bias is not None:
            arrays[f"{name}.bias"] = bias.detach().float().cpu().contiguous().numpy()

    def keep_normed(name: str, conv: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
        assert norm.running_var is not None
        assert norm.running_mean is not None
        scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        keep(name, conv.weight * scale[:, None, None, None], norm.bias - norm.running_mean * scale)

    keep("stem", net.stem.weight, net.stem.bias)
    for side, blocks in (("down", net.down), ("up", net.up)):
        for number, block in enumerate(blocks):
            assert isinstance(block, Block)
            keep_normed(f"{side}.{number}.a", block.a, block.a_norm)
            keep_normed(f"{side}.{number}.b", block.b, block.b_norm)
            if block.skip is not None:
                keep(f"{side}.{number}.skip", block.skip.weight, None)
    keep("head", net.head.weight, net.head.bias)
    return arrays
