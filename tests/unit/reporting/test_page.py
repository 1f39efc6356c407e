"""Pages: well formed, safe whatever stands in them, and in need of nothing from anywhere."""

from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicast.reporting import (
    Html,
    bulleted,
    code,
    details,
    figure,
    new_figure,
    page,
    paragraph,
    preformatted,
    render_png,
    render_svg,
    section,
    table,
    verdict,
)
from tests.unit.reporting.parsed import ParsedPage

NASTY = "</td><script>\"'&amp; ]]>"
PLAIN = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=20)


def test_text_is_text_wherever_it_stands() -> None:
    parts = [
        NASTY,
        paragraph(NASTY, code(NASTY), holds=False),
        section(NASTY, table([NASTY], [[NASTY]], folds=True), bulleted([NASTY])),
        details(NASTY, preformatted(NASTY), verdict(True, NASTY)),
    ]
    parsed = ParsedPage(page(NASTY, parts))
    assert parsed.text.count(NASTY) == 12
    assert parsed.values("td", "data-label") == [NASTY]


@given(st.lists(PLAIN), PLAIN)
def test_any_text_comes_back_as_it_was(texts: list[str], heading: str) -> None:
    rows = [[text, paragraph(text)] for text in texts]
    parsed = ParsedPage(page("t", [section("s", table([heading, "b"], rows))]))
    body = "".join(f"{text}{text}\n\n" for text in texts)
    assert body in parsed.text


def test_markup_stays_markup() -> None:
    assert paragraph(Html("<em>so</em>"), " & so") == "<p><em>so</em> &amp; so</p>\n"


def test_a_section_without_content_is_not_there() -> None:
    assert section("Failures", table(["a"], [])) == ""
    assert section("Failures", bulleted([])) == ""
    assert "<h2>" in section("Failures", paragraph("none"))


def test_numbers_stand_to_the_right_and_are_short() -> None:
    rows = [[1, 0.123456789, True, None, "x"]]
    parsed = ParsedPage(page("t", [table(list("abcde"), rows)]))
    assert parsed.values("td", "class") == ["number", "number"]
    assert parsed.text.endswith("10.123457Truex\n\n\n\n")


def test_a_row_of_another_length_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="zip"):
        table(["a", "b"], [["x"]])


def test_only_tables_that_are_told_to_fold() -> None:
    rows = [["x"]]
    assert 'class="folds"' in table(["a"], rows, folds=True)
    assert 'class="folds"' not in table(["a"], rows)


def test_a_figure_is_within_the_page_and_can_be_read_out() -> None:
    drawing, axes = new_figure("x", "y")
    axes.plot([1, 2], [3, 4])
    parts = [figure(drawing, "a & b"), figure(drawing, "c", description="rises <fast>")]
    parsed = ParsedPage(page("t", parts))
    assert parsed.values("img", "alt") == ["a & b", "rises <fast>"]
    assert all(link.startswith("data:image/svg+xml;base64,") for link in parsed.links)
    assert parsed.fetches_nothing()
    assert 'name="viewport"' in parsed.source and "@media print" in parsed.source


def test_a_plot_with_very_many_points_is_embedded_as_pixels() -> None:
    drawing, axes = new_figure("x", "y")
    axes.scatter(range(20_000), [n * 7919 % 10_007 for n in range(20_000)])
    kind, _, data = ParsedPage(page("t", [figure(drawing, "p")])).links[0].partition(";base64,")
    assert kind == "data:image/png"
    assert b64decode(data).startswith(b"\x89PNG")


def test_figures_are_the_same_bytes_for_the_same_data() -> None:
    def draw() -> tuple[bytes, bytes]:
        drawing, axes = new_figure("x", "y")
        axes.plot([1, 2], [3, 4], marker="o", label="a")
        axes.legend()
        return render_svg(drawing), render_png(drawing)

    assert draw() == draw()
