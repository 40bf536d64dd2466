"""`pliant synthetic`: a folder of annotated faces that nobody has, to try things with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pliant.terminal import say


def synthetic(
    folder: Annotated[Path, typer.Argument(help="The folder to write to; it is made if need be.")],
    count: Annotated[int, typer.Option(help="How many faces.", min=1)] = 200,
    video: Annotated[
        bool,
        typer.Option("--video", help="One moving face instead: face.mp4, and its landmarks in face.csv."),
    ] = False,
    frames: Annotated[int, typer.Option(help="How many frames the video has, 25 a second.", min=1)] = 250,
    seed: Annotated[int, typer.Option(help="Another seed gives other faces.", min=0)] = 0,
) -> None:
    """Write annotated synthetic faces, to try things with.

    They are called face-0000.jpg and face-0000.pts, and so on, and have 68 landmarks.
    """
    if video:
        from pliant.synthetic.video import write_video

        say(f"wrote {write_video(folder, frames, seed)} and face.csv")
        return
    from pliant.synthetic import write_faces

    write_faces(folder, count, seed)
    say(f"wrote {count} faces to {folder}")
