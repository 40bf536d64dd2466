"""What came of one check."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """One check of one standard, its verdict, and what to do or why it does not apply.

    Verdicts are `pass`, `fail`, `exception` (fails, for a reason in pyproject.toml), `by hand` (answered in
    docs/standards.md) and `skipped` (another check that it builds on failed).
    """

    standard: str
    code: str
    title: str
    verdict: str
    note: str = ""


def found(standard: str, code: str, title: str, problem: str) -> Outcome:
    """Passed if there is no problem to report."""
    return Outcome(standard, code, title, "fail" if problem else "pass", problem)
