"""The paper's six experiments and two of our own, on any annotated images: one file each."""
