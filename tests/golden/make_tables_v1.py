"""How the tables v1_*.parquet were made, by pliant 0.1, before they had a version. They are kept as they are.

v1_tables.json has what `read_fits` of that version gave for them.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import PIL.Image

import pliant
from pliant.data.formats import write_landmarks
from pliant.synthetic import faces

here = Path(__file__).parent.resolve()


def run(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "pliant", *map(str, words), "-q"], check=False)


with tempfile.TemporaryDirectory() as place:
    # Names in the tables are those from here.
    os.chdir(place)
    images = Path("images")
    images.mkdir()
    for number, sample in enumerate(faces(14, seed=4, image_size=64)):
        PIL.Image.fromarray(sample.image()).save(images / f"face{number}.png")
        write_landmarks(images / f"face{number}.pts", sample.points())
    run("train", images, "-o", "model.pliant", "--size", 20, "--shape-modes", "1,3")
    Path("broken.png").write_bytes(b"no image")
    run("fit", "model.pliant", images / "face0.png", "broken.png", images / "face1.png", "-o", "fits")
    run("synthetic", "video", "--video")
    # The object hides in some of these frames.
    words = ("--every", 25, "--no-overlay", "--start", "centre")
    run("track", "model.pliant", "video/face.mp4", "-o", "track", *words)
    run("evaluate", "model.pliant", images, "-o", "errors.parquet", "--starts", 1)
    expected = {}
    tables = {"fits": "fits/fits.parquet", "track": "track/track.parquet", "evaluation": "errors.parquet"}
    for name, file in tables.items():
        (here / f"v1_{name}.parquet").write_bytes(Path(file).read_bytes())
        columns = pliant.read_fits(file)
        # A number a landmark would be long: their sums do.
        expected[name] = {
            key: (values if values.ndim == 1 else values.sum(axis=1)).tolist()
            for key, values in columns.items()
        }
(here / "v1_tables.json").write_text(json.dumps(expected, indent=1) + "\n")
