"""How v1.pliant was made. It is kept as it is: a new format gets a new file."""

import json
from pathlib import Path

import pliant
from pliant.synthetic import faces

here = Path(__file__).parent
model = pliant.train(
    faces(12, seed=4, image_size=64),
    size=20,
    shape_modes=(1, 3),
    appearance_modes=(2, 4),
    features="igo",
    confidence=False,
)
model.save(here / "v1.pliant")
finest = model.levels[-1]
expected = {
    "size": model.size,
    "shape_eigenvalues": finest.shape.eigenvalues.tolist(),
    "appearance_eigenvalues": finest.appearance.eigenvalues.tolist(),
    "appearance_mean_sum": float(finest.appearance.mean.sum(dtype=float)),
    "pixels": len(finest.motion.frame.pixels),
    "drawn_mean": float(model.draw([1.0], [1.0])[0].mean(dtype=float)),
}
(here / "v1.json").write_text(json.dumps(expected, indent=2) + "\n")
