"""NumPy's own threads stand back while images are fitted, and come back."""

import subprocess
import sys

import numpy as np
import pytest

from pliant import threads
from pliant.threads import _blas, cores, one_blas_thread, short_turns


def blas_threads() -> list[int]:
    """Of the libraries that were there at the first fit: NumPy's own is, and does all of our products."""
    return [library["num_threads"] for library in _blas().info() if library["user_api"] == "blas"]


@pytest.fixture
def several():
    """Two threads for NumPy's products, though tests have one: to come back, they must have been there."""
    np.ones((2, 2)) @ np.ones((2, 2))
    with _blas().limit(limits=2, user_api="blas"):
        assert 2 in blas_threads()
        yield


def test_there_is_a_core():
    assert cores() >= 1


@pytest.mark.usefixtures("several")
def test_blas_has_one_thread_inside_and_all_of_them_afterwards():
    before = blas_threads()
    with one_blas_thread():
        assert blas_threads() == [1] * len(before)
        with one_blas_thread():
            assert blas_threads() == [1] * len(before)
        assert blas_threads() == [1] * len(before)
    assert blas_threads() == before


@pytest.mark.usefixtures("several")
def test_whoever_leaves_last_gives_the_threads_back():
    """Two folders may be fitted in turns, and be done in any order."""
    before = blas_threads()
    one, other = one_blas_thread(), one_blas_thread()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert blas_threads() == [1] * len(before)
    other.__exit__(None, None, None)
    assert blas_threads() == before


def test_turns_are_short_inside_and_as_before_once_all_have_left():
    before = sys.getswitchinterval()
    one, other = short_turns(), short_turns()
    one.__enter__()
    assert sys.getswitchinterval() == pytest.approx(0.0005, rel=0.02)
    other.__enter__()
    one.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(0.0005, rel=0.02)
    other.__exit__(None, None, None)
    assert sys.getswitchinterval() == before
    sys.setswitchinterval(0.0001)
    try:
        with short_turns():
            assert sys.getswitchinterval() == pytest.approx(0.0001, rel=0.02)
    finally:
        sys.setswitchinterval(before)


_FORKING = """
import multiprocessing, sys
import numpy as np
import pliant

model, image, start = pliant.load(sys.argv[1]), np.load(sys.argv[2]), np.load(sys.argv[3])

def fitted(jobs):
    return pliant.fit(model, [image], [start], jobs=jobs)[0].points

before = fitted(3)
with multiprocessing.get_context("fork").Pool(1) as children:
    for jobs in (3, 1):
        assert np.allclose(children.apply_async(fitted, [jobs]).get(timeout=60), before, atol=1e-6)
print("done")
"""


def test_a_forked_child_fits_after_its_parent_did(model, dataset, tmp_path):
    """As loaders of training data and web servers do it: the parent's threads are not in the child."""
    model.save(tmp_path / "m.pliant")
    np.save(tmp_path / "image.npy", dataset[0].image())
    np.save(tmp_path / "start.npy", dataset[0].points() + 1)
    files = [str(tmp_path / name) for name in ("m.pliant", "image.npy", "start.npy")]
    done = subprocess.run(
        [sys.executable, "-c", _FORKING, *files], capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "done\n", done.stderr


def test_a_lock_that_a_thread_held_is_free_in_a_forked_child():
    with threads._lock:
        threads._forget_threads()
        with one_blas_thread():
            pass
