"""The paper's six experiments and four of our own, on any annotated images: one file each."""

from pliant.experiments.conduct import EXPERIMENTS, Conducted, Drawn, chosen, conduct, draw
from pliant.experiments.merging import Merged, merge_experiments
from pliant.shards import Shard

__all__ = [
    "EXPERIMENTS",
    "Conducted",
    "Drawn",
    "Merged",
    "Shard",
    "chosen",
    "conduct",
    "draw",
    "merge_experiments",
]
