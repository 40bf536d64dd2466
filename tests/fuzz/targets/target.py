"""What a fuzzer has to know of a reader."""

import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

CORPUS = Path(__file__).parent.parent / "corpus"


@dataclass(frozen=True)
class Target:
    """A reader, with files that it reads and ways to damage them.

    `read(content, folder)` gives the content to the reader, as a file in the folder if it needs one. It returns
    whether the reader took it; False is a refusal with a sentence, and anything else that is wrong is raised.
    `seeds` makes whole files. `mutate` makes one file of another. `watched` are the modules whose branches guide
    the long run, and `longest` is how many bytes it tries. `short` is how many mutants `make test` tries.
    """

    name: str
    seeds: Callable[[], Iterable[bytes]]
    read: Callable[[bytes, Path], bool]
    mutate: Callable[[bytes, Random], bytes]
    watched: tuple[str, ...] = ("pliant.data",)
    longest: int = 2048
    short: int = 60

    @property
    def module(self) -> str:
        """The module that makes this target."""
        return self.seeds.__module__

    def kept(self) -> list[Path]:
        """The files of this target in the corpus."""
        return sorted(path for path in (CORPUS / self.name).glob("*") if path.is_file())


def written(content: bytes, path: Path) -> Path:
    """A file with this content: few system calls, as there are millions of files."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(file, content)
    os.close(file)
    return path


def refused(error: ValueError, *beginnings: object) -> bool:
    """False, as a refusal is; the error must be a sentence that begins with the name of the file."""
    said = str(error)
    assert type(error).__name__ not in ("UnicodeDecodeError", "UnicodeEncodeError"), repr(error)
    assert said.startswith(tuple(map(str, beginnings))), said[:300]
    assert said.endswith((".", "?", ")")), said[-300:]
    assert len(said) < 2000, f"a sentence of {len(said)} letters: {said[:300]}"
    said.encode("utf-8", "surrogateescape")
    return False


def quiet() -> None:
    """Warnings are errors, as in all tests: what a stranger's file makes NumPy say is no news to anybody."""
    warnings.simplefilter("error")
