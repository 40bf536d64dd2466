"""The page of equations: every equation of the paper has its line, and every line that it names is there."""

import re

import pytest

import list_equations as lister


@pytest.fixture
def source(tmp_path):
    """A package of one file that computes equation 1."""
    (tmp_path / "one.py").write_text("class Sum:\n    def of(self, a, b):\n        return a + b  # eq. 1\n")
    return tmp_path


LIST = "number,label,meaning,stands_for,note\n1,eq:sum,A sum,,\n"


def test_the_page_is_up_to_date():
    made = lister.page_of(lister.read_list(lister.LIST.read_text()), lister.SOURCE)
    page = lister.PAGE.read_text()
    assert page == made, "code or list has changed: run python docs/list_equations.py, and commit the page."


def test_the_page_has_all_134():
    rows = re.findall(
        r"^\| (\d+) \| .+ \| .+\(\.\./\.\./src/pliant/.+ \|.*\|$", lister.PAGE.read_text(), re.MULTILINE
    )
    assert [int(row) for row in rows] == list(range(1, 135))


def test_links_lead_to_lines_that_are_marked():
    """Not by the code that makes the page: the line itself, or the comment above it, has the number."""
    for row in lister.PAGE.read_text().splitlines():
        number = re.match(r"\| (\d+) \|", row)
        if not number:
            continue
        for name, file, line in re.findall(
            r"(\*?`[\w.]+`\*?)[^,]*, \[[^]]+\]\(\.\./\.\./src/pliant/(.+?)#L(\d+)\)", row
        ):
            lines = (lister.SOURCE / file).read_text().splitlines()
            here, above = lines[int(line) - 1], lines[int(line) - 2]
            if name.startswith("*"):
                assert re.match(rf"\s*(def|class) {name.strip('*`').split('.')[-1]}\b", here), row
            else:
                marked = here if " eq. " in here else above
                assert number[1] in re.search(r" eq\. ([\d, ]+)$", marked)[1].split(", "), row


def test_a_line_is_found_with_what_it_is_inside_of(source):
    assert lister.marked_lines(source) == {1: [lister.Place("one.py", "Sum.of", 3, "return a + b")]}
    (source / "one.py").write_text("def of(a, b):\n    # the sum, eq. 1, 2\n    return a + b\n")
    assert lister.marked_lines(source)[2] == [lister.Place("one.py", "of", 3, "return a + b")]


@pytest.mark.parametrize(
    "comment", ["# eq 1", "# Eq. 1", "# eq. 1 and 2", "# eqs. 1, 2", "# eq. 1, see below"]
)
def test_what_is_nearly_a_marker_gets_a_sentence(source, comment):
    (source / "one.py").write_text(f"x = 1  {comment}\n")
    with pytest.raises(ValueError, match=r"one\.py:1: a marker of equations ends its comment"):
        lister.marked_lines(source)


def test_a_marker_above_nothing_gets_a_sentence(source):
    (source / "one.py").write_text("# eq. 1\n\nx = 1\n")
    with pytest.raises(ValueError, match="right above it"):
        lister.marked_lines(source)


class TestFaults:
    def test_there_are_none(self, source):
        assert "one.py:3" in lister.page_of(lister.read_list(LIST), source)

    def test_an_equation_without_a_line(self, source):
        with pytest.raises(ValueError, match="equation 2 has no line: mark the one that computes it"):
            lister.page_of(lister.read_list(LIST + "2,,A product,,\n"), source)

    def test_a_line_without_an_equation(self, source):
        (source / "two.py").write_text("x = 2 * 3  # eq. 2\n")
        with pytest.raises(ValueError, match=r"two\.py:1 is marked with equation 2"):
            lister.page_of(lister.read_list(LIST), source)

    def test_a_line_and_a_stand_in(self, source):
        with pytest.raises(ValueError, match="clear its stands_for"):
            lister.page_of(lister.read_list(LIST.replace("A sum,", "A sum,one.py:Sum")), source)

    @pytest.mark.parametrize(
        ("name", "sentence"), [("one.py:Sum.off", r"no Sum\.off in one\.py"), ("no.py:x", r"no file no\.py")]
    )
    def test_a_stand_in_that_is_gone(self, source, name, sentence):
        with pytest.raises(ValueError, match=sentence):
            lister.page_of(lister.read_list(LIST + f"2,,A product,{name},\n"), source)

    def test_a_gap_in_the_list(self, source):
        with pytest.raises(ValueError, match="without a gap"):
            lister.page_of(lister.read_list(LIST + "3,,A product,one.py:Sum,\n"), source)


def test_equations_are_counted_as_latex_does():
    tex = r"""
    \begin{equation} \begin{aligned} a \\ b \label{eq:one} \end{aligned} \end{equation}
    \begin{equation*} c \label{eq:none} \end{equation*}
    \begin{eqnarray} d \end{eqnarray}
    \begin{equation} e \label{eq:three} \end{equation}
    """
    assert lister.numbered_in(tex) == ["eq:one", "", "eq:three"]
