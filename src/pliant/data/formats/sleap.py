"""SLEAP's `.slp`, read and written by sleap-io (`pip install 'pliant[sleap]'`).

What a person has placed is read; predictions are not. A frame of a video is an image of its own, called after the
video and the frame's number, and the video is its group. Frames that the file holds itself, or that a video shows,
come with their pixels; those of a list of images are named as the list has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pliant.arrays import Image
from pliant.data.annotation import Annotation, Convention, ImageSizes
from pliant.data.archives import refuse_bomb
from pliant.data.images import ImageError
from pliant.data.landmark_names import shared_names, without_numbers

NAME = "sleap"
EXTENSIONS = (".slp",)
MANY = True

CONVENTION = Convention(
    reference="SLEAP's labels since format 1.1: midpixel coordinates, the corner of the image is (-0.5, -0.5); "
    "sleap-io takes half a pixel off older ones"
)
VARIANTS: Mapping[str, Convention] = {}


def recognises(path: Path, head: bytes) -> bool:
    """An HDF5 file with SLEAP's ending."""
    return head.startswith(b"\x89HDF\r\n\x1a\n") and path.suffix.lower() in EXTENSIONS


def read(path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]:
    """An annotation for each instance that a person has placed, in the order of the frames."""
    sleap_io = _library(path)
    _refuse_bomb(path)
    try:
        # Videos stay closed: their names may be addresses, and opening one would ask for it.
        labels = sleap_io.load_slp(str(path), open_videos=False)
        annotations = [
            annotation for frame in labels.labeled_frames for annotation in _in_frame(path, frame, convention)
        ]
    except Exception as error:  # sleap-io, HDF5 and JSON in it stumble over damage in many ways.
        raise ValueError(
            f"{path}: this file cannot be read ({str(error) or type(error).__name__})."
        ) from None
    if not annotations:
        raise ValueError(f"{path}: this file has no instances placed by a person; predictions are not read.")
    return annotations


def write(path: Path, annotations: Sequence[Annotation], convention: Convention) -> None:
    """Write a list of images with their instances; groups, boxes and pixels are not kept."""
    sleap_io = _library(path)
    skeleton = sleap_io.Skeleton(list(shared_names(path, annotations)))
    instances: dict[str, list[Any]] = {}
    for annotation in annotations:
        points = convention.to_theirs(annotation.points)
        instances.setdefault(annotation.image, []).append(
            sleap_io.Instance.from_numpy(points, skeleton=skeleton)
        )
    images = list(instances)
    described = {"type": "ImageVideo", "filename": images[0], "filenames": images}
    video = sleap_io.Video(filename=images, backend_metadata=described, open_backend=False)
    frames = [
        sleap_io.LabeledFrame(video=video, frame_idx=number, instances=instances[image])
        for number, image in enumerate(images)
    ]
    labels = sleap_io.Labels(frames, videos=[video], skeletons=[skeleton])
    sleap_io.save_slp(labels, str(path), embed=False)


def _library(path: Path) -> Any:
    try:
        import sleap_io
    except ImportError:
        raise ValueError(f"{path}: SLEAP files need sleap-io: pip install 'pliant[sleap]'.") from None
    return sleap_io


def _refuse_bomb(path: Path) -> None:
    """Weigh what sleap-io will unpack; frames of videos stay packed until they are asked for."""
    import h5py

    def count(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and not name.startswith("video"):
            sizes.append(int(item.size or 0) * item.dtype.itemsize)

    sizes: list[int] = []
    try:
        with h5py.File(path, "r") as file:
            file.visititems(count)
    except Exception as error:  # As above.
        raise ValueError(
            f"{path}: this file cannot be read ({str(error) or type(error).__name__})."
        ) from None
    refuse_bomb(path, path.stat().st_size, sum(sizes))


def _in_frame(path: Path, frame: Any, convention: Convention) -> Iterator[Annotation]:
    image, group, pixels = _frame(path, frame.video, int(frame.frame_idx))
    for instance in frame.user_instances:
        points = convention.to_ours(np.asarray(instance.numpy(), dtype=np.float64))
        names = without_numbers(list(instance.skeleton.node_names))
        yield Annotation(image, points, names, group=group, pixels=pixels)


def _frame(path: Path, video: Any, number: int) -> tuple[str, str, Callable[[], Image] | None]:
    """Name, group and pixels of a frame; pixels are None if it is an image file."""
    if isinstance(video.filename, list):
        return str(video.filename[number]), "", None

    def pixels() -> Image:
        if "://" in str(video.filename) or not Path(video.filename).is_file():
            raise ImageError(
                f"{path}: frame {number} of {video.filename} cannot be read: it is not a file on this machine."
            )
        try:
            video.open_backend = True
            return np.asarray(video[number])
        except (OSError, IndexError, KeyError, ValueError) as error:
            raise ImageError(
                f"{path}: frame {number} of {video.filename} cannot be read ({error})."
            ) from None

    source = video.source_video
    if source is not None and isinstance(source.filename, list):
        return str(source.filename[number]), "", pixels
    name = str(video.filename if source is None else source.filename).replace("\\", "/").rpartition("/")[2]
    return f"{Path(name).stem} {number:06d}", name, pixels
