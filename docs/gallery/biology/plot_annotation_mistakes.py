"""Find annotation mistakes before training
========================================

Two landmarks are swapped, one was never moved to its place, an image was digitised twice. Such
mistakes are hard to see in a table of coordinates, and they spoil a model. ``check_dataset``
looks for them.
"""

from dataclasses import replace

import pliant

# %%
# Take 40 wings and make four mistakes on purpose.

wings = list(pliant.synthetic.wings(40, image_size=240))


def annotated(wing, points):
    return replace(wing, points_source=replace(wing.annotation(), points=points))


# Two crossveins change their names.
swapped = wings[5].points().copy()
swapped[[10, 12]] = swapped[[12, 10]]
wings[5] = annotated(wings[5], swapped)

# The fork of L2 and L3 is set down beside the vein.
shifted = wings[11].points().copy()
shifted[8] += (20, -14)
wings[11] = annotated(wings[11], shifted)

# All landmarks are digitised in the opposite order.
wings[19] = annotated(wings[19], wings[19].points()[::-1])

# The same image comes again under another name.
wings[30] = replace(
    wings[30], image_source=wings[22].image, points_source=wings[22].annotation()
)

# %%
# The check compares each shape with what the other shapes lead it to expect, and images with each
# other.

dataset = pliant.Dataset(tuple(wings), "wings with mistakes")
check = pliant.data.check_dataset(dataset, progress=False)
print("Cannot be used:", *check.valid.problems, sep="\n  ")
print(
    "Look wrong:",
    *(f"{suspect.name}: {suspect.reason}" for suspect in check.suspects),
    sep="\n  ",
)

# %%
# A contact sheet shows each suspect. Colours say the number of each landmark, and those that stand
# out are large diamonds. On the command line, ``pliant check wings.tps --draw suspects.png`` does
# the same.

figure = pliant.plots.plot_suspects(dataset, check.suspects)

# %%
# All four mistakes are found: one sample that repeats another, and three that look wrong. The
# check can be wrong, so it changes nothing by itself: look at each suspect and decide.

found = {suspect.number for suspect in check.suspects}
assert {5, 11, 19} <= found
assert len(found) <= 6
assert len(check.valid.problems) == 1
assert check.valid.problems[0].startswith("wing-0030")
