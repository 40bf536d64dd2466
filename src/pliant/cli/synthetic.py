"""`pliant synthetic`: a folder of annotated faces that nobody has, to try things with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pliant.cli.options import AsJson, Quiet, Seed, SettingsFile, Verbose, say_settings
from pliant.progress import Progress
from pliant.terminal import say


def synthetic(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(help="The folder to write to. It is created if it does not exist.")
    ],
    count: Annotated[int, typer.Option(help="Number of faces.", min=1)] = 200,
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
    """Write annotated synthetic faces to experiment with.

    The files are face-0000.jpg and face-0000.pts, and so on. Each face has 68 landmarks.
    """
    import json

    silent = quiet or as_json
    if verbose and not silent:
        say_settings(context)
    if video:
        from pliant.synthetic.video import write_video

        wrote = [str(write_video(folder, frames, seed)), str(folder / "face.csv")]
    else:
        from pliant.synthetic import write_faces

        with Progress(False if silent else None) as bar:
            write_faces(folder, count, seed, advance=bar.start("drawing faces", count))
        wrote = [str(folder)]
    if as_json:
        say(json.dumps({**({"frames": frames} if video else {"faces": count}), "wrote": wrote}, indent=2))
    elif not quiet:
        many = f"{frames} frames" if video else f"{count} faces"
        say(f"wrote {many} to {' and '.join(wrote)}")
