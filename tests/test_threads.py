"""NumPy's own threads stand back while images are fitted, and come back."""

import threading

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
    before = blas_threads()
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))
    seen = []

    def first():
        with one_blas_thread():
            first_is_in.set()
            second_is_in.wait(10)
        first_is_out.set()

    def second():
        first_is_in.wait(10)
        with one_blas_thread():
            second_is_in.set()
            first_is_out.wait(10)
            seen.append(blas_threads())

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert seen == [[1] * len(before)]
    assert blas_threads() == before
