"""The paper's six experiments and three of our own, on any annotated images: one file each."""
