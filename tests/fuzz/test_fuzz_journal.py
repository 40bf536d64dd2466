"""Journals that somebody damaged or edited: --resume refuses them, or ends with the undisturbed table."""

import json
import os
import random
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import pliant
from pliant.bulk import Task, files, run
from pliant.bulk.files import journal_in
from pliant.bulk.journal import JOURNAL, Journal
from pliant.fitting.result import failed
from pliant.fitting.status import Status
from pliant.table import rows_of

MUTANTS = int(os.environ.get("PLIANT_FUZZ", "300"))
COUNT = 12
OTHERS = (None, True, 0, -1, 1e308, float("nan"), "", "face", [], [1], [0.5], [None], {}, {"image": "a"})


class Stub:
    """Fits that need no model worth the name: landmarks are the start's corner and the image's mean."""

    jobs, algorithm, prepared, keep_evidence = 1, "stub", (), False
    settings = pliant.Fitting()

    def __init__(self, model):
        self.model = model

    def block(self, images, starts, threads):
        done = failed(self.model, self.algorithm, None, "")
        return [
            replace(
                done,
                points=np.array([[image.mean(), start[0]], [start[1], 1 / 3]]),
                status=Status.CONVERGED,
                cost=float(image.std()),
                iterations=3,
            )
            for image, start in zip(images, starts, strict=True)
        ]


@pytest.fixture(scope="module")
def undisturbed(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("journal")
    chance = np.random.default_rng(0)
    for number in range(COUNT):
        Image.fromarray(chance.integers(0, 255, (6, 5), dtype=np.uint8)).save(folder / f"{number:02}.png")
    (folder / "05.png").write_text("no image")
    task = Task(sorted(map(str, folder.glob("*.png"))), folder / "out", {"n": 1})
    journal = b""

    def keep(row):
        nonlocal journal
        journal = journal_in(task.output).read_bytes()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_BLOCKS", 4)
        fit = Stub(model)
        run(task, fit, start, each=keep)
        assert [row["status"] for row in rows_of(task.table)].count("converged") == COUNT - 1
        yield SimpleNamespace(task=task, fitter=fit, journal=journal, rows=as_text(task))


def start(name, image):
    return np.array([1.0, 2.0, 4.0, 5.0])


def as_text(task):
    return [json.dumps(row) for row in rows_of(task.table)]


def altered(line, chance):
    """The line with one value, or one byte, that is another."""
    try:
        content = json.loads(line)
    except ValueError:
        content = None
    if not isinstance(content, dict) or not content or chance.random() < 0.3:
        place = chance.randrange(max(1, len(line) - 1))
        return line[:place] + bytes([chance.randrange(256)]) + line[place + 1 :]
    key = chance.choice(list(content))
    if chance.random() < 0.2:
        del content[key]
    elif isinstance(content[key], float):
        content[key] += 1e-9
    else:
        content[key] = chance.choice(OTHERS)
    return json.dumps(content).encode() + b"\n"


def damaged(journal, chance):
    """A journal as editors, disks and copies leave it."""
    lines = journal.splitlines(keepends=True)
    for _ in range(chance.choice((1, 1, 2, 5))):
        here = chance.randrange(len(lines))
        what = chance.choice(("again", "altered", "gone", "swapped", "other", "surplus", "torn", "head"))
        if what == "again":
            lines.insert(here, lines[here])
        elif what == "altered":
            lines[here] = altered(lines[here], chance)
        elif what == "gone" and len(lines) > 1:
            del lines[here]
        elif what == "swapped":
            other = chance.randrange(len(lines))
            lines[here], lines[other] = lines[other], lines[here]
        elif what == "other":
            lines.insert(here, json.dumps(chance.choice(OTHERS)).encode() + b"\n")
        elif what == "surplus":
            lines += lines[1:]
        elif what == "torn":
            lines[here] = lines[here][: chance.randrange(len(lines[here]))]
        elif what == "head":
            lines[0] = chance.choice((altered(lines[0], chance), b"{}\n", b"3\n"))
    return b"".join(lines)


def forged(path, journal, chance):
    """A journal whose checks are right, but whose rows are not those of the images."""
    head, *rows = [json.loads(line) for line in journal.splitlines()]
    for content in (head, *rows):
        content.pop("check", None)
    here, other = chance.sample(range(len(rows)), 2)
    what = chance.choice(("again", "gone", "swapped", "empty", "type", "key", "surplus", "head"))
    if what == "again":
        rows.insert(here, rows[here])
    elif what == "gone":
        del rows[here]
    elif what == "swapped":
        rows[here], rows[other] = rows[other], rows[here]
    elif what == "empty":
        rows[here] = {}
    elif what == "type":
        key = chance.choice(("image", "status", "cost", "iterations", "width", "x", "y"))
        rows[here][key] = chance.choice(
            [value for value in OTHERS if type(value) not in (float, int, type(None))]
        )
    elif what == "key":
        del rows[here][chance.choice(list(rows[here]))]
    elif what == "surplus":
        rows += rows
    elif what == "head":
        head = {key: value for key, value in head.items() if key != chance.choice(list(head))}
    with Journal(path, head) as written:
        written.append(rows)


def test_journals(undisturbed, tmp_path):
    refused = same = 0
    for seed in range(MUTANTS):
        chance = random.Random(seed)
        output = tmp_path / str(seed)
        output.mkdir()
        task = Task(undisturbed.task.images, output, {"n": 1})
        kept = undisturbed.journal[: chance.choice((len(undisturbed.journal), len(undisturbed.journal) // 2))]
        if seed % 3:
            (output / JOURNAL).write_bytes(damaged(kept, chance))
        else:
            forged(output / JOURNAL, undisturbed.journal, chance)
        said = ""
        try:
            run(task, undisturbed.fitter, start, resume=True)
        except ValueError as error:
            said = str(error)
        if said:
            assert str(output) in said, seed
            assert not task.table.exists(), seed
            refused += 1
            continue
        assert as_text(task) == undisturbed.rows, seed
        assert not journal_in(task.output).exists()
        same += 1
    assert refused
    assert same > refused


@pytest.mark.parametrize("surplus", ["again", "nothing", "other"])
def test_surplus_rows(undisturbed, tmp_path, surplus):
    """Rows for more images than there are ended in a table of as many, and in -12 doubtful fits."""
    lines = undisturbed.journal.splitlines(keepends=True)
    more = {"again": lines[1:], "nothing": [b"{}\n"] * COUNT, "other": [b'{"image": 3}\n'] * COUNT}[surplus]
    task = Task(undisturbed.task.images, tmp_path, {"n": 1})
    journal_in(task.output).write_bytes(b"".join(lines + more))
    run(task, undisturbed.fitter, start, resume=True)
    assert as_text(task) == undisturbed.rows
