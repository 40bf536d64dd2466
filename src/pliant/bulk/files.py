"""What a run writes and where, what an earlier run left there, and what must not be replaced."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from pliant.batch import BLOCK
from pliant.bulk.journal import JOURNAL, ROWS, whole_lines
from pliant.bulk.rows import are_rows_of, is_head
from pliant.data.addresses import (
    Source,
    as_source,
    is_address,
    is_file,
    join,
    names_in,
    opened,
    plain_name,
)
from pliant.fitting.status import Status
from pliant.table import TABLE, Row, read_head, rows_of
from pliant.terminal import counted
from pliant.trust.confidence import DEFAULT_BOUND

FLAGGED, CSV = "flagged.csv", "fits.csv"

_BLOCKS = 16
"""Blocks that there should be, so that a machine with many cores has something for each."""


_CHUNK = 2**20
"""Bytes of a file that are read at a time."""

PICTURE_SIZE = 600
"""Pixels along the longer side of a picture that is not drawn in full."""


@dataclass(frozen=True)
class Drawing:
    """How `fit_images` draws its pictures.

    Parameters
    ----------
    full : bool
        Draw pictures as large as the images. Otherwise their longer side has 600 pixels.
    labels : {'', 'numbers', 'names'}
        Labels at the landmarks.
    crop : bool
        Show the object with a border around it, not the whole image.

    Examples
    --------
    >>> from pathlib import Path
    >>> import pliant
    >>> pliant.bulk.fit_images("faces.pliant", "new/", "fits", jobs=1, draw=pliant.bulk.Drawing(labels="numbers"))
    >>> len(list(Path("fits/pictures").iterdir()))
    3

    """

    full: bool = False
    labels: Literal["", "numbers", "names"] = ""
    crop: bool = False

    def __str__(self) -> str:
        size = "full size" if self.full else f"{PICTURE_SIZE} pixels"
        return ", ".join(filter(None, (size, "cropped" if self.crop else "", self.labels)))


@dataclass(frozen=True)
class Task:
    """Images to fit and what to write to the folder `output`, beside the table.

    `settings` are all that decides the rows, as plain values by the names that a user knows them by; `landmarks` is
    the format of the files in `output/landmarks`, if there are to be any, and `draw` says how `output/pictures` are
    drawn. `annotations` is one file with the landmarks of all images. `bound` is the error that confidence is
    about, and fits with less confidence than `flag_below` are listed in a table of their own.
    """

    images: Sequence[str]
    output: Source
    settings: Mapping[str, Any]
    landmarks: str = ""
    draw: Drawing | None = None
    annotations: Source | None = None
    csv: bool = False
    bound: float = DEFAULT_BOUND
    flag_below: float | None = None

    @property
    def table(self) -> Source:
        return join(self.output, TABLE)

    @property
    def written(self) -> list[Source]:
        """What the task leaves, as the user will find it."""
        return written_by(self.output, self.head(), self.annotations)

    @property
    def block(self) -> int:
        """Images that are fitted together.

        The last bits of a fit depend on the others in its block. So that rows are the same whatever was killed and
        however many threads there are, blocks begin at fixed images: this depends on the number of images alone.
        """
        return max(1, min(BLOCK, len(self.images) // _BLOCKS))

    def head(self) -> dict[str, Any]:
        """What the journal and the table say about the run that wrote them."""
        images = f"{len(self.images)} with the fingerprint {fingerprint(self.images)}"
        drawn = False if self.draw is None else str(self.draw)
        written = {"bound": self.bound, "landmarks": self.landmarks or "none", "draw": drawn}
        head: dict[str, Any] = {
            "settings": {"images": images, **self.settings, **written},
            "annotations": None if self.annotations is None else absolute(self.annotations),
            "csv": self.csv,
            "flag_below": self.flag_below,
        }
        # As it will be read again: lists for tuples, and so on.
        return cast(dict[str, Any], json.loads(json.dumps(head)))


def written_by(output: Source, head: Mapping[str, Any], annotations: Source | None = None) -> list[Source]:
    """What a run with this head leaves, as the user will find it; `annotations` is how the user called it."""
    files = [join(output, TABLE)]
    files += [join(output, "landmarks")] if head["settings"]["landmarks"] != "none" else []
    files += [join(output, "pictures")] if head["settings"]["draw"] else []
    files += [join(output, CSV)] if head["csv"] else []
    files += [join(output, FLAGGED)] if head["flag_below"] is not None else []
    return files + ([annotations or as_source(head["annotations"])] if head["annotations"] else [])


def fingerprint(content: Source | Iterable[str]) -> str:
    """Sixteen digits that stand for the content of a file, wherever it is, or for texts and their order."""
    digest = hashlib.sha256()
    if isinstance(content, (Path, str)):
        with opened(content) as file:
            while some := file.read(_CHUNK):
                digest.update(some)
    else:
        for text in content:
            digest.update(text.encode("utf-8", "surrogateescape") + b"\0")
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Earlier:
    """What lies in the folder from before.

    A run that did not finish has `done` images, of which `failed` have no fit, in the first `length` bytes of its
    journal. One that did has a table, and may have `written` landmark files and pictures.
    """

    unfinished: Mapping[str, Any] | None = None
    done: int = 0
    failed: int = 0
    length: int = 0
    finished: Mapping[str, Any] | None = None
    written: frozenset[Source] = field(default=frozenset(), repr=False)


def look(task: Task) -> Earlier:
    """Look into the folder that is to be written to."""
    if _is_no_folder(task.output):
        raise ValueError(f"{task.output}: this is a file, but the output must be a folder.")
    unfinished, done, failed, length = None, 0, 0, 0
    journal = journal_in(task.output)
    if journal is not None and journal.is_file():
        lines = whole_lines(journal)
        unfinished, length = next(lines, (None, 0))
        if not is_head(unfinished):
            if not _has_torn_head(journal):
                raise ValueError(
                    f"{journal}: the first line of this journal is damaged, so its run cannot continue: "
                    "remove the file, or write to another folder."
                )
            unfinished, length = None, 0
        same = unfinished is not None and not differences(unfinished["settings"], task.head()["settings"])
        unwritten = 0
        for number, (image, (line, end)) in enumerate(zip(task.images, lines, strict=False), start=1):
            rows = line.get(ROWS)
            # What is behind rows that are not the image's is fitted again.
            if not isinstance(rows, list) or (same and not are_rows_of(rows, image)):
                break
            unwritten += all(isinstance(row, dict) and row.get("status") == Status.FAILED for row in rows)
            # A block that was torn is fitted again as a whole.
            if number % task.block == 0 or number == len(task.images):
                done, failed, length = number, failed + unwritten, end
                unwritten = 0
    finished, written = None, frozenset[Source]()
    if is_file(task.table):
        finished = read_head(task.table)
        if not is_head(finished):
            raise ValueError(f"{task.table}: this is not a table of fits that pliant wrote.")
        known = rows_of(task.table, ["image", "object", "status"])
        written = frozenset(files_of_rows(task.output, finished, known))
    return Earlier(unfinished, done, failed, length, finished, written)


def _is_no_folder(output: Source) -> bool:
    if isinstance(output, Path):
        return output.exists() and not output.is_dir()
    return is_file(output)


def _has_torn_head(journal: Path) -> bool:
    """Whether a process was killed while it wrote the first line, before there was anything to lose."""
    with open(journal, "rb") as file:
        return not file.readline().endswith(b"\n")


def has_finished(task: Task, earlier: Earlier) -> bool:
    """Whether the table in the folder is the one that the task would make."""
    finished = earlier.finished if earlier.unfinished is None else None
    return finished is not None and not differences(finished["settings"], task.head()["settings"])


def refusal(task: Task, earlier: Earlier, resume: bool = False, overwrite: bool = False) -> str:
    """Why the task must not be done in this folder, as a sentence; empty if it may."""
    if earlier.unfinished is not None and not resume:
        return (
            f"{task.output} has the fits of {counted(earlier.done, 'image')} of a run that did not finish: "
            "continue with resume=True, or write to another folder. To discard that run, remove "
            f"{journal_in(task.output)}."
        )
    head = earlier.unfinished or earlier.finished
    changed = [] if head is None else differences(head["settings"], task.head()["settings"])
    if resume and changed and (earlier.unfinished is not None or not overwrite):
        return (
            f"{task.output} has a run with other settings, so resume=True cannot continue it: "
            f"{'; '.join(changed)}. Use the same settings, or write to another folder."
        )
    if earlier.unfinished is None and earlier.finished is not None and not resume and not overwrite:
        return (
            f"{task.output} has the fits of a finished run: replace them with overwrite=True, or write to "
            "another folder."
        )
    ours = set(earlier.written)
    for known in (earlier.unfinished, earlier.finished):
        ours |= set() if known is None else others_of(task.output, known)
    # A run that was stopped while it put its files in their places finds some of them there.
    if earlier.done < len(task.images) and not (resume and has_finished(task, earlier)):
        for target in _in_the_way(task):
            if target not in ours:
                return f"{target} would be replaced: write to another folder."
    for file in others_of(task.output, task.head()):
        if file not in ours and _is_there(file):
            return f"{file} would be replaced: give another file, or remove it first."
    inputs = {_real_name(name) for name in task.images} if earlier.written and not resume else set()
    for file in earlier.written:
        if _real_name(file) in inputs:
            return f"{file} is one of the images to fit, and would be replaced: write to another folder."
    return ""


def others_of(output: Source, head: Mapping[str, Any]) -> set[Source]:
    """The files beside the table that a run writes for all images together."""
    files: set[Source] = {as_source(head["annotations"])} if head["annotations"] else set()
    files |= {join(output, CSV)} if head["csv"] else set()
    # Tables of older versions do not say.
    return files | ({join(output, FLAGGED)} if head.get("flag_below") is not None else set())


def absolute(file: Source) -> str:
    """The name of a file wherever it is asked for."""
    return str(file) if is_address(file) else os.path.abspath(file)


def journal_in(output: Source) -> Path | None:
    """Where a run that is alone in its folder keeps its rows until all are there; stores append to no file."""
    return output / JOURNAL if isinstance(output, Path) else None


def staging_in(output: Path) -> Path:
    """Where landmark files and pictures wait until all are there: those of an earlier run stay until then."""
    return output / "fits.unfinished"


def names_of(images: Sequence[str]) -> list[str]:
    """What the files of each image are called: its name, with its folder where two would be alike.

    `face.2` would be alike with the second object of `face`.
    """
    files = [path_of(image) for image in images]
    shared = Counter(file.stem.casefold() for file in files)
    names = [
        f"{file.absolute().parent.name}-{file.stem}"
        if shared[file.stem.casefold()] > 1 or _without_number(file.stem.casefold()) in shared
        else file.stem
        for file in files
    ]
    first: dict[str, str] = {}
    for image, name in zip(images, names, strict=True):
        other = first.setdefault(name.casefold(), image)
        if other is not image:
            raise ValueError(
                f"the landmark files or pictures of {other} and {image} would both be called {name}: fit "
                "them separately."
            )
    for image, name in zip(images, names, strict=True):
        other = first.get(_without_number(name.casefold()) or "", image)
        if other is not image:
            raise ValueError(
                f"the landmark files of several objects in {other} and those of {image} could both be called "
                f"{name}: fit them separately."
            )
    return names


def _without_number(name: str) -> str | None:
    """The name before the number of an object at its end; None if there is no such number."""
    before, dot, number = name.rpartition(".")
    return before if dot and number.isdecimal() else None


def path_of(image: str) -> Path:
    """The path of an image; of an address such as zip://folder/image.jpg::archive.zip, the first part."""
    return Path(image.split("::")[0])


def landmark_file(name: str, landmarks: str, number: int = 0) -> str:
    """Where a folder has the landmarks of an object, in a format for files beside images: NAME.pts, NAME.2.pts."""
    from pliant.data.formats import find_format

    several = f".{number + 1}" if number else ""
    return f"landmarks/{name}{several}{find_format(landmarks)[0].EXTENSIONS[0]}"


def picture_file(name: str) -> str:
    """Where a folder has the picture of a fit.

    It has a folder of its own: beside the landmarks, it would be taken for the image that they belong to, though it
    has other pixels.
    """
    return f"pictures/{name}.png"


def files_of_rows(output: Source, head: Mapping[str, Any], rows: Iterable[Row]) -> set[Source]:
    """The files that a run wrote for its images, those that could be fitted."""
    landmarks, draw = head["settings"]["landmarks"], bool(head["settings"]["draw"])
    if landmarks == "none" and not draw:
        return set()
    images: list[str] = []
    fitted: list[tuple[int, int]] = []
    for row in rows:
        if not row["object"]:
            images.append(row["image"])
        if row["status"] != Status.FAILED:
            fitted.append((len(images) - 1, row["object"]))
    # Images without a fit have a say in what the files are called, and no files.
    names = names_of(images)
    files = {picture_file(names[image]) for image, _ in fitted} if draw else set()
    if landmarks != "none":
        files |= {landmark_file(names[image], landmarks, number) for image, number in fitted}
    return {join(output, file) for file in files}


def _in_the_way(task: Task) -> Iterator[Source]:
    """The files that are there and that the task may write. How many objects are in images is not known before."""
    if not task.landmarks and task.draw is None:
        return
    names = names_of(task.images)
    if task.draw is not None:
        pictures = _listed(join(task.output, "pictures"))
        files = (join(task.output, picture_file(name)) for name in names) if pictures else ()
        yield from (file for file in files if plain_name(file) in pictures)
    if task.landmarks:
        folder = join(task.output, "landmarks")
        there = _listed(folder)
        first = [join(task.output, landmark_file(name, task.landmarks)) for name in names] if there else []
        yield from (file for file in first if plain_name(file) in there)
        own = {plain_name(file).casefold() for file in first}
        for name in sorted(there):
            base = _without_number(Path(name).stem)
            if base is not None and f"{base}{Path(name).suffix}".casefold() in own:
                yield join(folder, name)


def _listed(folder: Source) -> set[str]:
    """Whatever has a name in a folder, if it is there."""
    if isinstance(folder, Path):
        return set(os.listdir(folder)) if folder.is_dir() else set()
    return set(names_in(folder))


def _is_there(file: Source) -> bool:
    return os.path.lexists(file) if isinstance(file, Path) else is_file(file)


def _real_name(file: Source) -> str:
    return str(file) if is_address(file) else os.path.realpath(file)


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What is not the same in the settings of two runs, in words; where they were computed does not count."""
    return [
        f"{name} was {_shown(then.get(name))} and is now {_shown(now.get(name))}"
        for name in {**then, **now}
        if name not in _ELSEWHERE and then.get(name) != now.get(name)
    ]


_ELSEWHERE = ("device", "precision")
"""A run may go on where there is another device, or none: its fits are the same but for their last digits."""


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
