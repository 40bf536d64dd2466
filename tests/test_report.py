"""Pages that stand alone: of an evaluation and of a model, and the command that writes the latter."""

import base64
import re

import numpy as np
import pytest

from pliant import plots, report
from pliant.plots import Style
from test_cli import run


class TestPages:
    NASTY = "<script>alert('x')</script> & \"quotes\""

    def stands_alone(self, page):
        assert page.startswith("<!doctype html>")
        assert "http" not in re.sub(r"base64,[^\"]*", "", page)
        assert "<script" not in page
        for data in re.findall(r"base64,([^\"]*)", page):
            base64.b64decode(data, validate=True)

    def test_text_is_escaped(self):
        bad = self.NASTY
        parts = [report.paragraph(bad), report.commands(bad, bad), report.table([bad], [[bad]])]
        parts += [report.value_table({bad: [bad]}), report.picture(b"GIF89a", bad)]
        page = report.page(bad, bad, [report.Section(bad, parts)])
        self.stands_alone(page)
        assert page.count("&lt;script&gt;") == 12
        assert 'alt="&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; &quot;quotes&quot;"' in page

    def test_columns_of_numbers_stand_on_the_right(self):
        page = report.table(["name", "count", "share"], [["a", 1000, "3.0%"], ["b", 0.5, ""]])
        assert '<th>name</th><th class="number">count</th><th class="number">share</th>' in page
        assert '<td class="number">1,000</td>' in page
        assert '<td class="number">0.5000</td>' in page

    def test_an_evaluation(self, dataset, rng):
        truths = [sample.points() for sample in dataset[:4]]
        points = [truth + rng.normal(0, 2, truth.shape) for truth in truths]
        errors = np.linalg.norm(np.array(points) - truths, axis=2) / 50
        fits = {
            "start": report.Evaluated(errors.mean(axis=1) * 2),
            self.NASTY: report.Evaluated(errors.mean(axis=1), errors, points, 12.34),
        }
        page = report.evaluation_page(
            fits,
            report.Subject(
                mean=truths[0],
                images=[sample.image() for sample in dataset[:4]],
                truths=truths,
                names=[self.NASTY] * 4,
            ),
            settings={"noise": 0.05},
            style=Style(dpi=40),
        )
        self.stands_alone(page)
        assert page.count("data:image/svg+xml") == 2
        assert page.count("data:image/png") == 1
        assert "12.3" in page
        assert f"{errors.mean():.4f}" in page
        assert ">scale units</th>" not in page
        bare = report.evaluation_page({"start": report.Evaluated(np.array([0.1, np.nan]))})
        assert bare.count("<img") == 1

    def test_the_limit_of_what_is_counted_is_said(self):
        fits = report.Evaluated(np.array([0.004, 0.005, 0.02]), pixels=np.ones(3), units=np.ones(3))
        page = report.evaluation_page({"po-asy-gn": fits}, limit=0.01)
        assert '<th class="number">&gt;\N{NO-BREAK SPACE}0.01</th>' in page
        assert '<td class="number">33.3%</td>' in page
        assert ">scale units</th>" in page
        assert "failed" not in re.sub(r"base64,[^\"]*", "", page)

    def test_a_model(self, model):
        page = report.model_page(model, "faces", 1, Style(dpi=40))
        self.stands_alone(page)
        assert page.count("<img") == 4

    def test_the_same_figure_is_the_same_text(self, model):
        one, other = (report.picture(plots.plot_variance(model), "", vector=True) for _ in range(2))
        assert one == other

    def test_what_is_no_picture_is_refused(self):
        with pytest.raises(ValueError, match="'a face' must be PNG"):
            report.picture(b"text", "a face")


@pytest.fixture(scope="module")
def file(model, tmp_path_factory):
    file = tmp_path_factory.mktemp("inspect") / "faces.pliant"
    model.save(file)
    return file


class TestInspect:
    def test_draws_and_reports(self, file, tmp_path):
        drawn, page = tmp_path / "mean.svg", tmp_path / "page.html"
        done = run("inspect", file, "--draw", drawn, "--what", "mean", "--report", page, "--quiet")
        assert done.stdout == ""
        assert drawn.read_bytes().startswith(b"<?xml")
        assert "<h1>faces</h1>" in page.read_text()

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (("--draw", "modes.doc"), "must end in .png, .svg, .pdf"),
            (("--draw", "no/modes.png"), "the folder no does not exist"),
            (("--report", "page.pdf"), "must end in .html"),
            (("--what", "mean"), "--what mean: give the file to draw to with --draw"),
        ],
    )
    def test_mistakes_get_one_sentence(self, file, tmp_path, monkeypatch, command, arguments, sentence):
        monkeypatch.chdir(tmp_path)
        assert sentence in command("inspect", file, *arguments, code=1).err
        assert not list(tmp_path.iterdir())
