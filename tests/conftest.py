"""What several test files share: one small data set and one small model, made once."""

import os

# One thread for the products of NumPy and PyTorch, before either is loaded: tests run in as many processes as there
# are cores, and threads of OpenBLAS that wait for each other spin. A linear expert of eight faces took 53 s of
# processor time with two threads on a busy machine of two cores, and 2 s with one.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import numpy as np
import pytest

from pliant.data.dataset import Dataset
from pliant.model import Model
from pliant.synthetic import faces
from pliant.training import train


def pytest_terminal_summary(terminalreporter):
    """Say once why the pages of the studio were not tested, if they were not."""
    reasons = {
        str(report.longrepr[2]).removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if "tests/browser" in report.nodeid and isinstance(report.longrepr, tuple)
    }
    for reason in sorted(reasons):
        terminalreporter.write_line(f"the studio was not tried in a browser: {reason}")


@pytest.fixture(scope="session")
def dataset() -> Dataset:
    """Twenty-four small faces, in memory, so that they are drawn only once."""
    from pliant.data.dataset import dataset_from_arrays

    made = faces(24, seed=1, image_size=96)
    return dataset_from_arrays([sample.image() for sample in made], [sample.points() for sample in made])


@pytest.fixture(scope="session")
def face_folders(dataset: Dataset, tmp_path_factory):
    """The same faces as files, fourteen in a folder train and seven in a folder test: where these two are."""
    import PIL.Image

    from pliant.data.formats import write_landmarks

    root = tmp_path_factory.mktemp("faces")
    for number, sample in enumerate(dataset[:21]):
        folder = root / ("train" if number < 14 else "test")
        folder.mkdir(exist_ok=True)
        PIL.Image.fromarray(sample.image()).save(folder / f"face{number}.png")
        write_landmarks(folder / f"face{number}.pts", sample.points())
    return root


@pytest.fixture(scope="session", autouse=True)
def _filters_learned_once():
    """Models of the same images, shapes and mean have the same filter: it is most of the time that training takes.

    tests/test_filters.py learns filters itself, as does whoever asks for `filters_learned_anew`.
    """
    from hashlib import sha256

    from pliant.building import build
    from pliant.shape import shape_size

    learn, known = build.learn_filter, {}

    def learn_once(samples, shapes, mean, jobs=1):
        digest = sha256()
        for image in (np.ascontiguousarray(sample.image()) for sample in samples):
            digest.update(f"{image.shape} {image.dtype}".encode() + image.tobytes())
        digest.update(np.ascontiguousarray(shapes).tobytes())
        # The window has a size of its own, whatever that of the model is.
        digest.update(np.round(mean / shape_size(mean), 9).tobytes())
        name = digest.digest()
        if name not in known:
            known[name] = learn(samples, shapes, mean, jobs)
        return known[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "learn_filter", learn_once)
        yield


@pytest.fixture
def filters_learned_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what training reads and remembers."""
    from pliant.building import build
    from pliant.starts import filter_learning

    monkeypatch.setattr(build, "learn_filter", filter_learning.learn_filter)


@pytest.fixture(scope="session")
def model(dataset: Dataset) -> Model:
    return train(dataset, size=40, shape_modes=(2, 5), licence="synthetic", confidence=False)


@pytest.fixture(scope="session")
def calibrated(model: Model, dataset: Dataset) -> Model:
    """The same model, with the confidence that its fits deserve."""
    from pliant.trust.calibration import calibrate

    return calibrate(model, dataset, images=24, progress=False)


@pytest.fixture(scope="session")
def linear_expert(dataset: Dataset):
    """A linear expert of a few of the faces."""
    from pliant.experts.linear_training import train_linear

    return train_linear([(sample.image(), sample.points()) for sample in dataset[:8]], starts=16)


@pytest.fixture(scope="session")
def network_expert(model: Model):
    """A network expert of two small networks with weights at random: it sees something everywhere."""
    from pliant.experts.frames import crop_frame
    from pliant.experts.network import NetworkExpert, Stage, _shapes

    rng, stages = np.random.default_rng(0), []
    for pixels, margin, widths, ups in ((16, 0.5, (2, 3), 1), (32, 0.2, (2, 3, 4), 1)):
        frame = crop_frame(model.levels[-1].shape.mean, pixels, margin, 2 ** len(widths))
        weights = {
            name: rng.normal(size=shape).astype(np.float32)
            for name, shape in _shapes(widths, ups, model.landmarks).items()
        }
        stages.append(Stage(frame, weights, 0.5, np.tile(np.diag([2.0, 1.0]), (model.landmarks, 1, 1))))
    return NetworkExpert(tuple(stages))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def command(monkeypatch, capsys):
    """`pliant ...` in this process: what it said, once its exit code has been checked, if one is expected."""
    import signal
    import sys
    from types import SimpleNamespace

    from pliant import cli

    def call(*words, code=0):
        monkeypatch.setattr(sys, "argv", ["pliant", *map(str, words)])
        handler = signal.getsignal(signal.SIGINT)
        try:
            with pytest.raises(SystemExit) as ended:
                cli.main()
        finally:
            signal.signal(signal.SIGINT, handler)
        said = capsys.readouterr()
        assert code is None or (ended.value.code or 0) == code, said.err
        return SimpleNamespace(out=said.out, err=said.err, code=ended.value.code or 0)

    return call


@pytest.fixture
def table_format(monkeypatch: pytest.MonkeyPatch) -> str:
    """A format for many images that keeps points, missing ones too, and nothing else; its files end in `.tab`."""
    import json
    from types import SimpleNamespace

    from pliant.data.annotation import Annotation, Convention
    from pliant.data.formats import formats

    def read(path, convention, sizes):
        rows = [json.loads(line) for line in path.read_text().splitlines()[1:]]
        size = sizes if convention.needs_size else lambda name: None
        return [
            Annotation(row["image"], convention.to_ours(np.array(row["points"], float), size(row["image"])))
            for row in rows
        ]

    def write(path, annotations, convention):
        rows = [
            {"image": one.image, "points": convention.to_theirs(one.points, one.size).tolist()}
            for one in annotations
        ]
        path.write_text("\n".join(["#table", *map(json.dumps, rows)]))

    table = SimpleNamespace(
        NAME="table",
        EXTENSIONS=(".tab",),
        MANY=True,
        CONVENTION=Convention("nobody's", first_pixel=(0.5, 0.5)),
        VARIANTS={},
        recognises=lambda path, head: head.startswith(b"#table"),
        read=read,
        write=write,
    )
    monkeypatch.setitem(formats(), "table", table)
    return "table"
