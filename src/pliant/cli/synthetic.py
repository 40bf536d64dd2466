"""`pliant synthetic`: a folder of annotated images that a program drew, to try things with."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pliant.cli.options import AsJson, Quiet, Seed, SettingsFile, Verbose, say_settings
from pliant.progress import Progress
from pliant.terminal import counted, say


class Kind(StrEnum):
    """What can be drawn."""

    FACES = "faces"
    WINGS = "wings"
    CHESTS = "chests"


def synthetic(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(help="The folder to write to. It is created if it does not exist.")
    ],
    count: Annotated[int, typer.Option(help="Number of images.", min=1)] = 200,
    kind: Annotated[
        Kind,
        typer.Option(help="Faces, wings of flies under a microscope, or chest radiographs of 16 bits."),
    ] = Kind.FACES,
    video: Annotated[
        bool,
        typer.Option(
            "--video",
            help="Write a video of one moving face instead: face.mp4, with its landmarks in face.csv.",
        ),
    ] = False,
    frames: Annotated[
        int, typer.Option(help="Number of frames of the video, at 25 per second.", min=1)
    ] = 250,
    seed: Seed = 0,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    settings: SettingsFile = None,
) -> None:
    """Write annotated synthetic images to experiment with.

    Faces are called face-0000.jpg and face-0000.pts, and so on, and have 68 landmarks. Wings (14 landmarks) and
    chests (28) share one landmark file each, wings.tps or chests.tps, with the length of a pixel in millimetres.
    """
    import json

    if video and kind is not Kind.FACES:
        raise typer.BadParameter(f"--video shows a moving face: leave out --kind {kind}.")

    silent = quiet or as_json
    if verbose and not silent:
        say_settings(context)
    if video:
        from pliant.synthetic.video import write_video

        wrote = [str(write_video(folder, frames, seed)), str(folder / "face.csv")]
    else:
        from pliant.synthetic import write_chests, write_faces, write_wings

        write = {Kind.FACES: write_faces, Kind.WINGS: write_wings, Kind.CHESTS: write_chests}[kind]
        with Progress(False if silent else None) as bar:
            write(folder, count, seed, advance=bar.start(f"drawing {kind}", count))
        wrote = [str(folder)]
    if as_json:
        say(json.dumps({**({"frames": frames} if video else {str(kind): count}), "wrote": wrote}, indent=2))
    elif not quiet:
        many = counted(frames, "frame") if video else counted(count, str(kind).removesuffix("s"))
        say(f"wrote {many} to {' and '.join(wrote)}")
