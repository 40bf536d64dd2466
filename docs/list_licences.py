"""Write the table of licences in docs/licences.md, from what installed packages say of themselves.

python docs/list_licences.py
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PAGE = Path(__file__).parent / "licences.md"
BEGIN, END = "<!-- licences: begin -->\n", "<!-- licences: end -->\n"

OPTIONAL = "sleap", "imagej", "s3", "gcs", "dicom", "cluster", "studio", "experts"
"""The extras that add to what pliant can do."""

COMPATIBLE = {"0BSD", "Apache-2.0", "BSD", "BSL-1.0", "CC0-1.0", "ISC", "MIT", "MIT-CMU", "PSF-2.0", "Zlib"}
"""Licences of packages that a program under Apache-2.0 may need."""

NOT_INSTALLED = {"gcsfs": "BSD", "torch": "Apache-2.0, BSD, BSL-1.0, MIT"}
"""Packages that the development environment does not have: the metadata of their wheels (PyTorch 2.13.0)."""

_FAMILIES = [
    (r"Apache", "Apache-2.0"),
    (r"0BSD", "0BSD"),
    (r"(?<!0)BSD", "BSD"),
    (r"ISC", "ISC"),
    (r"MIT-CMU|HPND|CMU License", "MIT-CMU"),
    (r"\bMIT\b(?!-CMU)", "MIT"),
    (r"PSF|Python Software Foundation", "PSF-2.0"),
    (r"zlib", "Zlib"),
    (r"CC0", "CC0-1.0"),
]
_COPYLEFT = re.compile(r"\b[AL]?GPL|\bMPL|\bEPL|\bCDDL|Commercial|Proprietary", re.IGNORECASE)


def licence_of(name: str) -> str:
    """The licences that a package names, such as `Apache-2.0, BSD`; `unknown` if it names none that we know."""
    if canonicalize_name(name) in NOT_INSTALLED:
        return NOT_INSTALLED[canonicalize_name(name)]
    told = metadata(name)
    classifiers = [one for one in told.get_all("Classifier") or [] if one.startswith("License ::")]
    # Some put the whole text where its name should be.
    # Not by brackets: other packages exchange what Python says of a field that is missing.
    text = (
        told.get("License-Expression")
        or "; ".join(classifiers)
        or (told.get("License") or "").partition("\n")[0]
    )
    if _COPYLEFT.search(text):
        return text
    found = sorted({family for pattern, family in _FAMILIES if re.search(pattern, text, re.IGNORECASE)})
    return ", ".join(found) or "unknown"


def needed(project: dict[str, Any]) -> dict[str, str]:
    """All packages that pliant needs, with what these need, and those that its extras name: their licences."""
    found: dict[str, str] = {}
    waiting = [Requirement(one) for one in project["dependencies"]]
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        if name in found or (one.marker and not one.marker.evaluate({"extra": ""})):
            continue
        found[name] = licence_of(name)
        waiting += map(Requirement, requires(name) or [])
    for extra in OPTIONAL:
        for name in (
            canonicalize_name(Requirement(one).name) for one in project["optional-dependencies"][extra]
        ):
            try:
                found.setdefault(name, licence_of(name))
            except PackageNotFoundError:
                continue
    return found


def table(project: dict[str, Any]) -> str:
    """The rows of the page."""
    direct = {canonicalize_name(Requirement(one).name) for one in project["dependencies"]}
    extras = {
        canonicalize_name(Requirement(one).name): extra
        for extra in OPTIONAL
        for one in project["optional-dependencies"][extra]
    }
    rows = ["| package | licence | needed by |", "| --- | --- | --- |"]
    for name, licence in sorted(needed(project).items()):
        by = (
            "pliant" if name in direct else f"pliant[{extras[name]}]" if name in extras else "another package"
        )
        rows.append(f"| {name} | {licence} | {by} |")
    return "\n".join(rows) + "\n"


def listed(page: str) -> dict[str, str]:
    """The packages on the page, with their licences."""
    rows = page.partition(BEGIN)[2].partition(END)[0].splitlines()[2:]
    return {name: licence for name, licence, _ in (row.strip("| ").split(" | ") for row in rows)}


def main() -> None:
    """Write the table where it was."""
    project = tomllib.loads((PAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    PAGE.write_text(before + BEGIN + table(project) + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
