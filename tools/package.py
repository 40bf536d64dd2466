"""Build wheel and source archive into dist/, look at what is in them, and try the wheel in an empty environment.

python tools/package.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]

SUFFIXES = {".py", ".typed", ".html", ".css", ".js", ".svg"}
"""What the wheel has of pliant."""

ARCHIVED = {"src", "tests", "README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "SECURITY.md"}
ARCHIVED |= {"PKG-INFO", "pyproject.toml", ".gitignore"}  # Hatchling always adds these.
"""What the source archive has."""

LARGEST = 1_000_000
"""Bytes of a file: a data set or a model would be larger."""

TRIAL = """
import pliant
from pliant.synthetic import faces

made = faces(12, seed=1, image_size=96)
model = pliant.train(made, size=30, shape_modes=(1, 3), confidence=False, progress=False)
fit = pliant.fit(model, made[0].image(), iterations=2)
assert fit.points.shape == (68, 2), fit.points.shape
print("trained and fitted:", model)
"""


def build(output: Path) -> tuple[Path, Path]:
    """The wheel and the source archive, made with the packages that are installed."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(output)]
    # The archive first, and the wheel from the archive.
    subprocess.run([*command, str(ROOT)], check=True, stdout=subprocess.DEVNULL)
    (wheel,), (archive,) = output.glob("*.whl"), output.glob("*.tar.gz")
    with TemporaryDirectory() as folder:
        subprocess.run([*command[:-1], folder, "--wheel", str(ROOT)], check=True, stdout=subprocess.DEVNULL)
        if (Path(folder) / wheel.name).read_bytes() != wheel.read_bytes():
            raise SystemExit(f"{wheel.name} from the source archive is not the one from the working tree.")
    return wheel, archive


def unwanted(wheel: Path, archive: Path) -> Iterator[str]:
    """A sentence for everything that should not be in them."""
    with zipfile.ZipFile(wheel) as file:
        for one in file.infolist():
            room = one.filename.partition("/")[0]
            known = room == "pliant" and Path(one.filename).suffix in SUFFIXES
            if not known and not room.endswith(".dist-info"):
                yield f"{wheel.name}: {one.filename} does not belong there."
            if one.file_size > LARGEST:
                yield f"{wheel.name}: {one.filename} has {one.file_size} bytes."
    with tarfile.open(archive) as files:
        for member in files.getmembers():
            path = Path(member.name)
            if len(path.parts) > 1 and path.parts[1] not in ARCHIVED:
                yield f"{archive.name}: {member.name} does not belong there."
            if member.size > LARGEST:
                yield f"{archive.name}: {member.name} has {member.size} bytes."


def try_out(wheel: Path) -> None:
    """Install the wheel where nothing else is, and use it."""
    with TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = Path(folder) / "bin" / "python"
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        locked = ["--require-hashes", "--requirement", str(ROOT / "requirements" / "plain.txt")]
        subprocess.run([*install, *locked], check=True)
        subprocess.run([*install, "--no-deps", str(wheel)], check=True)
        # In its own folder, so that nothing is imported from the working tree.
        for command in (
            [python, "-m", "pip", "check"],
            [python.parent / "pliant", "version"],
            [python, "-c", TRIAL],
        ):
            subprocess.run([str(one) for one in command], check=True, cwd=folder)


def main() -> None:
    """Build, look and try."""
    output = ROOT / "dist"
    shutil.rmtree(output, ignore_errors=True)
    wheel, archive = build(output)
    problems = list(unwanted(wheel, archive))
    if problems:
        raise SystemExit("\n".join(problems))
    try_out(wheel)
    for made in (wheel, archive):
        print(f"{made.relative_to(ROOT)}: {made.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
