"""Compare algorithms on one image
===============================

pliant has 31 algorithms. A name puts one together from its parts: the cost (``ssd`` or project-
out, ``po``), the composition (forward, inverse, asymmetric, bidirectional) and the method
(Gauss-Newton, Newton, Wiberg).
"""

import numpy as np

import pliant
from pliant.starts.noise import perturbed

faces = pliant.synthetic.faces(40, image_size=128)
model = pliant.train(
    faces, preset="quick", size=60, experts="none", confidence=False, progress=False
)
known = [entry.name for entry in pliant.catalogue()]
print(len(known), "algorithms:", ", ".join(known[:4]), "...", known[-1])

# %%
# Compare four of them from the same start: the mean shape, moved away from the face by a random
# amount. The first is the default; ``map`` gives it a prior on the shape, and ``0.2`` weighs the
# two sides of the asymmetric composition.

sample = pliant.synthetic.faces(1, seed=3, image_size=128)[0]
start = perturbed(model, sample.points(), 0.05, np.random.default_rng(0))
names = ["ssd:map-asy:0.2-gn-sch", "ssd-asy-gn-sch", "po-asy-gn", "po-inv-gn"]
fits = {name: pliant.fit(model, sample, start, algorithm=name) for name in names}

strip = pliant.plots.plot_iterations(fits[names[0]], sample.image())

# %%
# Compare how fast the error and the cost fall. Levels run from coarse to fine, and the cost is a
# share of that at the start of its level. The curves do not begin at the same height: at the
# coarsest level, a fit tries several places about its start and goes on from the best.

curves = pliant.plots.plot_convergence(
    {name: [fit] for name, fit in fits.items()}, [sample.points()]
)

# %%
# The same in numbers. A fit is *implausible* if its shape lies far outside of what the training
# images have. Without a prior that happens easily when there are as many modes as here. Inverse
# composition is the cheapest by far, and it is the one that does not arrive.

size = pliant.shape.shape_size(sample.points())
errors = {}
for name, fit in fits.items():
    errors[name] = float(
        np.linalg.norm(fit.points - sample.points(), axis=1).mean() / size
    )
    print(
        f"{name:24} {fit.status:12} {fit.iterations:3} iterations, error {errors[name]:.4f}"
    )

assert min(errors, key=errors.get) == names[0]
assert all(errors[name] < 0.03 for name in names[:3])
assert errors["po-inv-gn"] > 2 * errors["po-asy-gn"]
# sphinx_gallery_thumbnail_number = 2
