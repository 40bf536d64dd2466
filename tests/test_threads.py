"""NumPy's own threads stand back while images are fitted, and come back."""

import numpy as np

from pliant.threads import _blas, cores, one_blas_thread


def blas_threads() -> list[int]:
    """Of the libraries that were there at the first fit: NumPy's own is, and does all of our products."""
    return [library["num_threads"] for library in _blas().info() if library["user_api"] == "blas"]


def test_there_is_a_core():
    assert cores() >= 1


def test_blas_has_one_thread_inside_and_all_of_them_afterwards():
    np.ones((2, 2)) @ np.ones((2, 2))
    before = blas_threads()
    with one_blas_thread():
        assert blas_threads() == [1] * len(before)
        with one_blas_thread():
            assert blas_threads() == [1] * len(before)
        assert blas_threads() == [1] * len(before)
    assert blas_threads() == before


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
