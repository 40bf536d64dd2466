"""No text makes a pattern run for ages: each one is given the worst that its parts could be confused by."""

import signal
from contextlib import contextmanager

import pytest

from pliant.data.formats import formats
from pliant.data.landmark_names import by_name, without_numbers
from pliant.data.tables import is_landmark_column
from pliant.metrics import point_subset

LONG = 100_000
SECONDS = 5.0
"""Far more than is needed, as the machine may be busy; the patterns that were here before took minutes."""

WORST = {
    "blank lines": "\n" * 40,
    "very many blank lines": "\n" * LONG,
    "spaces": " " * LONG,
    "blank, then something else": "\n " * (LONG // 2) + "x",
    "unfinished comments": "<!--" * (LONG // 4),
    "comments": "<!-- -->" * (LONG // 8) + "x",
    "unfinished declarations": "<?" * (LONG // 2),
    "unfinished document types": "<!DOCTYPE [" * (LONG // 11),
    "brackets in a document type": "<!DOCTYPE [" + "] " * (LONG // 2),
    "numbers, spaces, and a name": "1 " * 8 + "a" + " " * LONG + "b.jpg",
    "spaces between numbers": "1 2 3 4 5 6" + " " * LONG + "7" + " " * LONG,
    "numbers alone": "1 " * (LONG // 2),
    "digits": "1" * LONG,
    "digits and points": "1." * (LONG // 2),
    "keys with spaces": '{"images"' + " " * LONG + '"images"' * (LONG // 8),
    "keys without end": '{ "version"' + " " * LONG,
    "lists": '[ {"annotations"' + " " * LONG,
    "announced": "LM" + " " * LONG,
    "announced, and blank": "LM=3" + " " * LONG,
    "a key and spaces": "LM=1\n1 1\nIMAGE" + " " * LONG + "\n",
    "a title": "image," + "_x" * (LONG // 2) + "\n",
    "pixels": "nose_x,nose_y,Image\n1,1," + "1 " * (LONG // 2) + "x\n",
    "a header": "version" + " " * LONG,
}


@contextmanager
def within(seconds: float):
    def stop(*_):
        raise TimeoutError(f"this took longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("text", WORST.values(), ids=WORST.keys())
def test_recognising_and_reading_take_no_time(text, tmp_path):
    for name, module in formats().items():
        path = tmp_path / f"a{module.EXTENSIONS[0]}"
        path.write_text(text)
        with within(SECONDS):
            module.recognises(path, text.encode())
        if name in ("sleap", "imagej", "parquet", "npy", "npz"):
            continue
        sentence = f"{path}: read"
        try:
            with within(SECONDS):
                module.read(path, module.CONVENTION, lambda name: (640, 480))
        except ValueError as error:
            sentence = str(error)
        assert sentence.startswith(str(path))


@pytest.mark.parametrize("text", ["1" * LONG, " " * LONG + "x", "x_" * (LONG // 2), "1a" * (LONG // 2)])
def test_names_and_titles_take_no_time(text):
    with within(SECONDS):
        by_name([text, text + "b"])
        without_numbers([text])
        is_landmark_column(text)
        with pytest.raises(ValueError, match=r"points =|integer string"):
            point_subset(text, 10)


def test_the_first_element_is_found_behind_all_that_may_come_before():
    from pliant.data.documents import xml_root

    for before in (
        "",
        "\n" * 50,
        "<?xml version='1.0'?>\n<!-- a -- > b -->\n",
        "<!DOCTYPE a [<!ENTITY b 'c'>] >",
    ):
        assert xml_root(f"{before}<dataset>".encode()) == "dataset"
    assert xml_root(b"<!-- <dataset> --><annotations/>") == "annotations"
    assert xml_root(b"text <dataset>") == ""
