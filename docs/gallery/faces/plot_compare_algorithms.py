"""Compare algorithms on one image
===============================

pliant has 31 algorithms. A name puts one together from its parts: the cost (``ssd`` or project-out,
``po``), the composition (forward, inverse, asymmetric, bidirectional) and the method (Gauss-Newton, Newton,
Wiberg).
"""

import numpy as np

import pliant
from pliant.starts.noise import perturbed

faces = pliant.synthetic.faces(40, image_size=128)
model = pliant.train(faces, preset="quick", size=60, experts="none", confidence=False, progress=False)
print(len(pliant.catalogue()), "algorithms, such as", pliant.catalogue()[0], "and", pliant.catalogue()[-1])

# %%
# All of them begin at the same place: the mean shape, moved away from the face by a random amount.

sample = pliant.synthetic.faces(4, seed=3, image_size=128)[1]
start = perturbed(model, sample.points(), 0.08, np.random.default_rng(4))
names = ["ssd-asy-gn-sch", "po-asy-gn", "po-inv-gn", "ssd-bid-gn-sch"]
fits = {name: pliant.fit(model, sample, start, algorithm=name) for name in names}

strip = pliant.plots.plot_iterations(fits["ssd-asy-gn-sch"], sample.image())

# %%
# Compare how fast the cost and the error fall. Levels run from coarse to fine, and the cost is shown as a
# share of that at the start of its level. Costs of different kinds (``ssd``, ``po``) have different units, so
# look at the error as well.

curves = pliant.plots.plot_convergence({name: [fit] for name, fit in fits.items()}, [sample.points()])

# %%
# The same in numbers.

size = pliant.shape.shape_size(sample.points())
errors = {}
for name, fit in fits.items():
    errors[name] = np.linalg.norm(fit.points - sample.points(), axis=1).mean() / size
    print(f"{name:16} {fit.status:14} {fit.iterations:3} iterations, error {errors[name]:.4f}")

before = np.linalg.norm(start - sample.points(), axis=1).mean() / size
assert all(error < 0.5 * before for error in errors.values())
# sphinx_gallery_thumbnail_number = 2
