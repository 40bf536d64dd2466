"""What experts add to a cost: the distance of the landmarks from where they are seen, as a function of p.

    1/2 sum_j (s_j(p) - y_j)' L_j (s_j(p) - y_j)  =  1/2 p'H p - b'p + k,        H = S'L S,  b = S'L (y - mean)

Shapes are linear in p: so the term is a quadratic in p like the prior, it is one for all iterations of a level,
and it touches no pixel. An update of p sees it through the same derivative as it sees the prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pliant.arrays import Concise, Float64
from pliant.experts.sightings import Sightings
from pliant.namespace import beside, namespace
from pliant.shape import ShapeModel


@dataclass(frozen=True, eq=False, repr=False)
class LandmarkTerm(Concise):
    """The term of B items: `hessian (B, n, n)`, `linear (B, n)`, `constant (B,)`."""

    hessian: Float64
    linear: Float64
    constant: Float64

    def value(self, parameters: Float64) -> Float64:
        """The term `(B,)` at parameters `(B, n)`."""
        pulled = self.gradient(parameters) - self.linear
        return (parameters * pulled).sum(axis=-1) / 2 + self.constant

    def gradient(self, parameters: Float64) -> Float64:
        """Its derivative `(B, n)` by the parameters `(B, n)`, there."""
        return (self.hessian @ parameters[:, :, None])[:, :, 0] - self.linear

    def of(self, rows: Sequence[int]) -> LandmarkTerm:
        """The term of some of the items."""
        return LandmarkTerm(self.hessian[rows], self.linear[rows], self.constant[rows])


def landmark_term(shape: ShapeModel, sightings: Sightings, weight: float = 1.0) -> LandmarkTerm:
    """The term for a shape model and what is seen of B objects, in the coordinates of that model.

    `weight` is what it counts for against the pixels. These err together and know nothing of it, so that by
    themselves they are too sure.
    """
    precision = weight * sightings.precision
    apart = sightings.points - beside(shape.mean, precision)
    basis = beside(shape.basis, precision)
    S = basis.reshape(shape.landmarks, 2, -1)
    pulled = namespace(precision).einsum("bvij,bvj->bvi", precision, apart)
    weighted = (precision @ S).reshape(len(sightings), -1, shape.parameters)
    return LandmarkTerm(
        hessian=basis.T @ weighted,
        linear=pulled.reshape(len(sightings), -1) @ basis,
        constant=(apart * pulled).sum(axis=(-2, -1)) / 2,
    )
