"""What sphinx-gallery needs to know about ours: which figures there are, and which example comes first."""

from __future__ import annotations

from typing import Any

from sphinx_gallery.scrapers import figure_rst, matplotlib_scraper

from pliant.plots.axes import Picture

_SAVED = "pliant_gallery_has_it"


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any], **options: Any) -> str:
    """Save what a block of an example drew, pyplot's figures and pliant's, and return the lines that show it."""
    shown: str = matplotlib_scraper(block, block_vars, gallery_conf, bbox_inches="tight", dpi=130, **options)
    files = []
    for figure in block_vars["example_globals"].values():
        if isinstance(figure, Picture) and not hasattr(figure, _SAVED):
            file = next(block_vars["image_path_iterator"])
            figure.savefig(file, bbox_inches="tight")
            setattr(figure, _SAVED, True)
            files.append(str(file))
    return shown + figure_rst(files, gallery_conf["src_dir"])


class Order:
    """Examples of a field from simple to special; those that are not named here come last, by their names."""

    FIRST = (
        "plot_train_and_fit",
        "plot_modes",
        "plot_confidence",
        "plot_compare_algorithms",
        "plot_wing_landmarks",
    )

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __repr__(self) -> str:
        return "Order"

    def __call__(self, file: str) -> tuple[int, str]:
        """A key to sort by."""
        name = file.removesuffix(".py")
        return (self.FIRST.index(name) if name in self.FIRST else len(self.FIRST), name)
