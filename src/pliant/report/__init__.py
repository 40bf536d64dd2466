"""Reports as one HTML file each: a page from parts, and the pages about an evaluation and a model."""

from pliant.report.evaluation import Evaluated, Subject, evaluation_page, evaluation_report
from pliant.report.model import model_page
from pliant.report.parts import (
    Html,
    Section,
    commands,
    page,
    paragraph,
    picture,
    table,
    value_table,
)
from pliant.report.parts import rendered as rendered

__all__ = [
    "Evaluated",
    "Html",
    "Section",
    "Subject",
    "commands",
    "evaluation_page",
    "evaluation_report",
    "model_page",
    "page",
    "paragraph",
    "picture",
    "table",
    "value_table",
]
