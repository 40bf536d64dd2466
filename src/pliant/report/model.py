"""The page about what a model has learned."""

from __future__ import annotations

from pliant import plots
from pliant.model import Model
from pliant.plots.style import STYLE, Style
from pliant.report.parts import Section, page, paragraph, picture, table, value_table
from pliant.tuning import choice


def model_page(model: Model, title: str, modes: int = 3, style: Style = STYLE) -> str:
    """Make a page about a model: what it has learned, and from which images.

    Parameters
    ----------
    model : Model
        The model.
    title : str
        The title of the page.
    modes : int
        The largest number of modes of shape and of texture to draw.
    style : Style
        Colours and sizes.

    Returns
    -------
    str
        The content of an HTML file.

    Examples
    --------
    >>> import pliant
    >>> html = pliant.report.model_page(pliant.load("faces.pliant"), "Faces", modes=1)
    >>> html.startswith("<!doctype html>")
    True

    """
    levels = [
        (
            f"{level.scale:g}",
            level.features,
            len(level.motion.frame.pixels),
            len(level.motion.frame.triangles),
            f"{level.shape.modes} ({level.shape.variance_kept:.1%})",
            f"{level.appearance.modes} ({level.appearance.variance_kept:.1%})",
        )
        for level in model.levels
    ]
    header = ("scale", "features", "pixels", "triangles", "shape modes", "appearance modes")
    drawn = [Section("Mean", [picture(plots.plot_mean(model, style), "mean, triangles and landmarks")])]
    for kind, count in (("Shape", model.levels[-1].shape.modes), ("Texture", model.texture.pca.modes)):
        if count:
            some = {"shape": modes, "texture": 0} if kind == "Shape" else {"shape": 0, "texture": modes}
            figure = plots.plot_modes(model, **some, style=style)
            drawn.append(Section(kind, [picture(figure, f"leading modes of {kind.lower()}")]))
    origin = {name: value for name, value in model.provenance.items() if name != "choice"}
    return page(
        title,
        f"{model.landmarks} landmarks, {model.size:g} pixels at scale 1.",
        [
            Section("Levels", [table(header, levels)]),
            *drawn,
            Section("Variance kept", [picture(plots.plot_variance(model, style), "variance", vector=True)]),
            _expert(model),
            Section("Settings", [value_table(model.settings.to_dict())]),
            *_choice(model),
            Section("Origin of the model", [value_table(origin)]),
        ],
    )


def _expert(model: Model) -> Section:
    """Which expert the model has, and what each term of the cost brings."""
    parts = [paragraph(_as_sentence(choice.expert_sentence(model)))]
    if choice.terms_rows(model):
        parts.append(paragraph(_as_sentence(choice.terms_sentence(model))))
        parts.append(table(choice.TERMS_HEADER, choice.terms_rows(model)))
    return Section("Expert", parts)


def _as_sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _choice(model: Model) -> list[Section]:
    """What was tried for the settings, and what more samples are worth."""
    if not choice.sentence(model):
        return []
    legend = paragraph(_as_sentence(choice.LEGEND))
    how, why = (paragraph(_as_sentence(said(model))) for said in (choice.sentence, choice.curve_sentence))
    return [
        Section("How settings were chosen", [how, table(choice.HEADER, choice.tried_rows(model)), legend]),
        Section("Effect of more samples", [why, table(choice.CURVE_HEADER, choice.curve_rows(model))]),
    ]
