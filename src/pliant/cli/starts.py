"""Where fits begin, as the commands have it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pliant.terminal import say

Boxes = Annotated[
    Path | None,
    typer.Option(
        help="Where the objects are: a table with image,left,top,right,bottom, or an annotation file with "
        "boxes (dlib, COCO), with or without landmarks. Each box in an image is one object.",
        exists=True,
    ),
]


def announce_detector(detector: object) -> None:
    """Say which file is run before it is: a settings file that somebody else wrote may have named it."""
    module, colon, function = (detector if isinstance(detector, str) else "").rpartition(":")
    if not colon:
        return
    from importlib.util import find_spec

    from pliant.files import real_path

    if module.endswith(".py"):
        file = str(real_path(module))
    else:
        # To look for a module inside of a package would run the package.
        package = module.partition(".")[0]
        try:
            found = find_spec(package) if package else None
        except ValueError:
            found = None
        file = f"the module {module} ({found.origin if found is not None else 'not found'})"
    say(f"detector: runs {function} of {file}", error=True)
