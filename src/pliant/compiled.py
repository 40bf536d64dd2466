"""The decorator of all compiled loops: Numba's, with a cache where there can be one.

Numba refuses to import a function that it cannot cache, and ends in a traceback when a cache file is damaged or
cannot be written. Nothing of that is a reason not to fit: the function is compiled again, and the user is told
once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from numba import njit
from numba.core import caching, config

from pliant.terminal import say

Function = TypeVar("Function")

_config: Any = config

INTERPRETED = bool(_config.DISABLE_JIT)
"""Whether NUMBA_DISABLE_JIT has turned compilation off."""


def compiled(**options: Any) -> Callable[[Function], Function]:
    """As `numba.njit(nogil=True, cache=True, **options)`, for functions in files of their own."""

    def decorate(function: Function) -> Function:
        if INTERPRETED:
            _say("NUMBA_DISABLE_JIT is set: pliant's loops run as plain Python, hundreds of times slower.")
            return function
        dispatcher: Any = njit(nogil=True, **options)(function)
        try:
            dispatcher._cache = _ForgivingCache(function)
        except (RuntimeError, OSError):
            _say(
                "there is no folder to store compiled code in, so every run compiles it again, which takes "
                "up to a minute: set NUMBA_CACHE_DIR to a writable folder."
            )
        return dispatcher  # type: ignore[no-any-return]

    return decorate


_FunctionCache: Any = caching.FunctionCache


class _ForgivingCache(_FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function, where a file that cannot be read or written is not an error."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:
            # Whatever a cut-off pickle may raise. The index is emptied: what it names is compiled and written anew.
            try:
                self.flush()
            except OSError as error:
                self._give_up(error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:
            # A full disk, or an index that another run has left half written.
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self.disable()
        _say(f"compiled code cannot be stored in {self.cache_path} for the next run ({error}).")


@cache
def _say(sentence: str) -> None:
    """Once in a process: thirty functions have the same to say."""
    say(f"pliant: {sentence}", error=True)
