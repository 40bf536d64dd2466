"""Checks pliant against JOSS, pyOpenSci and the Scientific Python guides: `make standards`.

python tools/standards.py [--date 2026-11-16]

It prints a row for each check. The exit code is 1 if a check fails without a reason in pyproject.toml
(`tool.repo-review.ignore` and `tool.standards.exceptions`), if such a reason is no longer needed, or if a question
of docs/standards.md has no answer.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from outcome import Outcome, found
from spec_checks import spec_outcomes

ROOT = Path(__file__).parents[1]

README_HAS = {
    "how to install it": r"pip install",
    "a Python example": r"^```python",
    "a link to the documentation": r"\]\(docs/",
    "a link to CONTRIBUTING.md": r"CONTRIBUTING\.md",
    "how to cite it (CITATION.cff)": r"CITATION\.cff",
    "the licence": r"Licen[cs]e",
}
CONTRIBUTING_HAS = {
    "how to set up a development copy": r"make setup",
    "how to run the tests": r"make test",
    "how to report a problem": r"(?i)^#+ .*(report|problem)",
    "how to ask for help": r"(?i)^#+ .*(help|question)",
    "the code of conduct": r"CODE_OF_CONDUCT\.md",
}
METADATA = "name", "description", "readme", "license", "authors", "keywords", "classifiers", "urls"
PROSE = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "SECURITY.md",
    "docs",
    "examples",
    "src",
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Check pliant against the standards of research software.")
    parser.add_argument("--date", type=date.fromisoformat, default=date.today(), help="the day of SPEC 0")
    today = parser.parse_args().date
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    reviewed = excused(review(ROOT), config["tool"]["repo-review"]["ignore"])
    own = [*project_outcomes(ROOT, config), *spec_outcomes(ROOT, config["project"], today), spelling(ROOT)]
    answered = answers((ROOT / "docs" / "standards.md").read_text(encoding="utf-8"))
    outcomes = [*reviewed, *excused(own, config["tool"]["standards"]["exceptions"]), *answered]
    print("\n".join(lines(outcomes)))
    return 1 if any(one.verdict == "fail" for one in outcomes) else 0


def review(root: Path) -> list[Outcome]:
    """The checks of repo-review and its plugin for the Scientific Python guide, exceptions included."""
    from repo_review.processor import process  # the other checks, and their tests, do without it

    verdicts = {True: "pass", False: "fail", None: "skipped"}
    # An ignore list of our own replaces the one of pyproject.toml, so that no check hides.
    return [
        Outcome(
            "Scientific Python", one.name, one.description, verdicts[one.result], _first_line(one.err_msg)
        )
        for one in process(root, ignore={"none"}).results
    ]


def _first_line(text: str) -> str:
    return " ".join(text.strip().split("\n\n")[0].split())


def project_outcomes(root: Path, config: dict[str, Any]) -> Iterator[Outcome]:
    """What JOSS and pyOpenSci ask for that can be seen in files."""
    project = config["project"]
    license_text = (root / "LICENSE").read_text(encoding="utf-8")
    right = project["license"] == "Apache-2.0" and "Apache License" in license_text
    yield found(
        "JOSS",
        "JOSS-license",
        "LICENSE is the OSI-approved licence that pyproject.toml names",
        "" if right else "they differ",
    )
    yield found("JOSS", "JOSS-citation", "CITATION.cff is complete and of this version", _citation(root))
    missing = [name for name in ("tests", "docs/reference", "examples") if not any((root / name).glob("*"))]
    yield found(
        "JOSS", "JOSS-folders", "There are tests, reference pages and examples", _lacking("", missing)
    )
    ci = (root / ".ci" / "run").read_text(encoding="utf-8")
    yield found(
        "JOSS",
        "JOSS-tests",
        "The tests run in CI",
        "" if "make test" in ci else ".ci/run does not run the tests",
    )
    for code, standard, name, wanted in (
        ("JOSS-community", "JOSS", "CONTRIBUTING.md", CONTRIBUTING_HAS),
        ("PYOS-readme", "pyOpenSci", "README.md", README_HAS),
    ):
        text = (root / name).read_text(encoding="utf-8")
        absent = [what for what, pattern in wanted.items() if not re.search(pattern, text, re.MULTILINE)]
        yield found(standard, code, f"{name} has {', '.join(wanted)}", _lacking(name, absent))
    files = "CHANGELOG.md", "CODE_OF_CONDUCT.md", "SECURITY.md", "CONTRIBUTING.md"
    absent = [name for name in files if not (root / name).is_file()]
    yield found("pyOpenSci", "PYOS-files", f"There are {', '.join(files)}", _lacking("", absent))
    absent = [key for key in METADATA if key not in project]
    yield found(
        "pyOpenSci",
        "PYOS-metadata",
        f"pyproject.toml has {', '.join(METADATA)}",
        _lacking("pyproject.toml", absent),
    )
    typed = (root / "src" / "pliant" / "py.typed").is_file()
    yield found(
        "pyOpenSci",
        "PYOS-typed",
        "The package tells type checkers that it is typed",
        _lacking("", [] if typed else ["py.typed"]),
    )


def _lacking(where: str, absent: list[str]) -> str:
    return f"{where} lacks {', '.join(absent)}".strip() if absent else ""


def _citation(root: Path) -> str:
    """What is wrong with CITATION.cff."""
    citation = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    absent = [
        key
        for key in ("cff-version", "message", "title", "authors", "version", "license")
        if not citation.get(key)
    ]
    if absent:
        return _lacking("CITATION.cff", absent)
    version = re.search(
        r'__version__ = "(.+)"', (root / "src" / "pliant" / "version.py").read_text(encoding="utf-8")
    )
    if version is None or str(citation["version"]) != version[1]:
        return f"CITATION.cff has version {citation['version']}, which is not that of src/pliant/version.py"
    return ""


def spelling(root: Path) -> Outcome:
    """Whether codespell finds a common misspelling; what it may not know is in pyproject.toml."""
    command = [sys.executable, "-m", "codespell_lib", *(name for name in PROSE if (root / name).exists())]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    found_words = "; ".join(done.stdout.strip().splitlines()[:10])
    problem = found_words or (done.stderr.strip() if done.returncode else "")
    return found("Scientific Python", "spelling", "No common misspelling in prose and code", problem)


def excused(outcomes: Iterable[Outcome], reasons: dict[str, str]) -> Iterator[Outcome]:
    """Turn failures with a reason into exceptions, and reasons without a failure into failures."""
    known = set()
    for one in outcomes:
        known.add(one.code)
        if one.code not in reasons:
            yield one
        elif one.verdict == "pass":
            yield replace(one, verdict="fail", note="it passes: remove the exception from pyproject.toml")
        else:
            yield replace(one, verdict="exception", note=reasons[one.code])
    for code in reasons.keys() - known:
        yield Outcome(
            "pyproject.toml", code, "An exception for a check that does not exist", "fail", "remove it"
        )


def answers(page: str) -> Iterator[Outcome]:
    """The questions of a page that a person has answered: rows of tables headed question and answer."""
    heading, inside = "", False
    for line in page.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells == ["question", "answer"]:
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and set(line) - set("|- "):
            answer = cells[1] if len(cells) == 2 else ""
            verdict = "by hand" if answer else "fail"
            yield Outcome(heading, "", cells[0], verdict, answer or "docs/standards.md has no answer")


def lines(outcomes: list[Outcome]) -> Iterator[str]:
    """The table as text; only what did not pass says why."""
    standard = None
    for one in outcomes:
        if one.standard != standard:
            standard = one.standard
            yield f"\n{standard}"
        label = f"{one.code}: {one.title}" if one.code else one.title
        yield f"  {one.verdict:<10} {label}"
        if one.note and one.verdict in ("fail", "exception"):
            yield f"  {'':<10}   {one.note}"
    counts = Counter(one.verdict for one in outcomes)
    yield "\n" + ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))


if __name__ == "__main__":
    sys.exit(main())
