"""The page Results in a browser: what a run has written is seen, sorted, compared, and given to Annotate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import SIZE, Studio, draw_collection, kite

import pliant
from pliant.table import write_table

ROWS = 3000


def row(image: str, number: int, **cells: Any) -> dict[str, Any]:
    points = kite(number % 6)
    plain = {
        "image": image, "object": 0, "status": "converged", "reason": "", "confidence": 0.9, "cost": 1.0,
        "iterations": 9, "seconds": 0.01, "width": SIZE[0], "height": SIZE[1], "x": points[:, 0].tolist(),
        "y": points[:, 1].tolist(),
    }  # fmt: skip
    return plain | cells


@pytest.fixture(scope="module")
def studio(start_studio: Callable[..., Studio], tmp_path_factory: pytest.TempPathFactory) -> Studio:
    """A studio of six kites, with a long evaluation of them, a short one, a track, and a broken table."""
    folder = draw_collection(tmp_path_factory.mktemp("collection") / "kites")
    results = folder.parent / "results"
    results.mkdir()
    errors = np.random.default_rng(0).permutation(ROWS) / (20 * ROWS)
    long = [
        row(
            f"kite_{k % 6}.png",
            k,
            error=float(errors[k]),
            algorithm=("po-inv-gn", "po-for-gn")[k % 2],
            start=0,
        )
        for k in range(ROWS)
    ]
    long[5] |= {"status": "failed", "reason": "it is too dark.", "x": None, "y": None, "error": float("inf")}
    write_table(results / "long.parquet", long, {"model": "kites.pliant"}, (), "evaluation")
    short = [row("gone.png", k, error=0.02 + k / 1000, algorithm="ssd-for-gn-sch", start=0) for k in range(5)]
    write_table(results / "short.parquet", short, {}, (), "evaluation")
    events = ["restarted", "tracked", "lost", "restarted", "tracked"]
    frames = [row("kite_0.png", 0, frame=k, time=k / 25, event=event) for k, event in enumerate(events)]
    (results / "film").mkdir()
    write_table(results / "film/track.parquet", frames, {}, (), "track")
    (results / "broken.parquet").write_bytes(b"half of a table")
    return start_studio(folder, "--results", str(results))


def opened(page: Any, studio: Studio, name: str, view: str = "overview") -> Any:
    """The page with a result open, by its name in the list."""
    results = page.request.get(f"{studio.address}/api/results").json()["results"]
    (found,) = (one["id"] for one in results if one["name"] == name)
    page.goto(f"{studio.address}/results?open={found}&view={view}")
    page.wait_for_function(
        "(name) => document.querySelector('#result-title')?.textContent === name", arg=name
    )
    return page


def test_results_are_listed_with_their_kinds_and_what_is_broken_says_so(
    studio: Studio, new_page: Callable[..., Any]
) -> None:
    page = opened(new_page(), studio, "short.parquet")
    assert page.locator("#shelf .result").count() == 3
    page.locator(".result", has=page.get_by_text("film", exact=True)).click()
    page.wait_for_selector(".chart .band")
    assert "Track" in page.locator(".result[aria-current]").inner_text()
    assert page.locator("#result-sentences p").first.inner_text() == "The object was found in 4 of 5 frames."
    assert page.locator(".chart .band").count() == 1
    page.locator("#shelf-others summary").click()
    assert "broken.parquet: this is not a Parquet file" in page.locator("#shelf-others li").inner_text()


def test_curves_of_several_results_are_drawn_together(studio: Studio, new_page: Callable[..., Any]) -> None:
    page = opened(new_page(), studio, "long.parquet")
    page.wait_for_selector(".chart .curve")
    assert page.locator(".chart .curve").count() == 2
    page.get_by_label("Draw the curves of short.parquet").check()
    page.wait_for_function("() => document.querySelectorAll('.chart .curve').length === 3")
    assert "short.parquet: ssd-for-gn-sch" in page.locator(".legend").inner_text()
    page.locator(".legend input").first.uncheck()
    assert page.locator(".chart .curve").count() == 2


def test_the_gallery_is_in_order_from_end_to_end_by_keyboard(
    studio: Studio, new_page: Callable[..., Any]
) -> None:
    page = opened(new_page(), studio, "long.parquet", "gallery")
    page.wait_for_function(
        "() => document.querySelector('.item[aria-posinset=\"1\"] .facts')?.textContent.includes('failed')"
    )
    assert page.locator("#looks").inner_text().startswith(f"{ROWS:,} rows")
    worst = page.locator(".item[aria-posinset='2'] .facts").inner_text()
    assert worst.startswith(f"{(ROWS - 1) / (20 * ROWS):.4f}")
    page.locator(".item[aria-posinset='1']").focus()
    page.keyboard.press("End")
    page.wait_for_function("() => document.activeElement.getAttribute('aria-posinset') === '3000'")
    page.wait_for_function("() => document.activeElement.querySelector('.facts').textContent === '0'")
    assert page.locator(".item:visible").count() < 80  # what is not in view is not there
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => document.querySelector('#fit-title')?.textContent.includes('2,999 of 3,000')"
    )
    page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "() => document.querySelector('#fit-title')?.textContent.includes('3,000 of 3,000')"
    )
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.activeElement.getAttribute('aria-posinset') === '3000'")


def test_a_filter_shows_failures_with_their_reason(studio: Studio, new_page: Callable[..., Any]) -> None:
    page = opened(new_page(), studio, "long.parquet", "gallery")
    page.locator("select[name=status]").select_option("failed")
    page.wait_for_function(
        "() => document.querySelector('#looks')?.textContent.startsWith('1 of 3,000 rows')"
    )
    page.locator(".item:visible").click()
    page.wait_for_selector("#fit[open] dd")
    assert "it is too dark." in page.locator("#fit-cells").inner_text()
    assert page.locator("#fit-take").is_disabled()


def test_an_image_that_is_gone_has_a_sentence_in_its_place(
    studio: Studio, new_page: Callable[..., Any]
) -> None:
    page = opened(new_page(), studio, "short.parquet", "gallery")
    page.wait_for_selector(".item .gone:visible")
    page.locator(".item").first.click()
    page.wait_for_selector("#fit-trouble:visible")
    assert page.locator("#fit-trouble").inner_text() == "gone.png no longer exists."


def test_the_table_sorts_on_the_server(studio: Studio, new_page: Callable[..., Any]) -> None:
    page = opened(new_page(), studio, "long.parquet", "table")
    title = page.locator(".long th", has_text="error (size)")
    first = page.locator(".long tbody tr").first
    page.wait_for_function("() => document.querySelector('.long tbody tr')?.textContent.includes('failed')")
    title.get_by_role("button").click()
    page.wait_for_function(
        "() => document.querySelector('.long th[aria-sort=ascending]')?.textContent.startsWith('error')"
    )
    page.wait_for_function("() => document.querySelector('.long tbody tr')?.textContent.includes('kite')")
    assert "failed" not in first.inner_text()
    page.locator(".long-scroller").evaluate("(one) => { one.scrollTop = one.scrollHeight; }")
    page.wait_for_function(
        "() => document.querySelector('.long tbody tr:last-child')?.textContent.includes('failed')"
    )
    assert page.locator(".long tbody tr").last.get_attribute("aria-rowindex") == str(ROWS + 1)


def test_a_fit_is_corrected_in_annotate(studio: Studio, new_page: Callable[..., Any]) -> None:
    page = opened(new_page(), studio, "long.parquet", "gallery")
    page.locator("input[name=name]").fill("kite_4")
    page.wait_for_function("() => document.querySelector('#looks')?.textContent.startsWith('500 of')")
    page.wait_for_function(
        "() => document.querySelector('.item[aria-posinset=\"1\"] .name')?.textContent.startsWith('kite_4.png')"
    )
    page.locator(".item[aria-posinset='1']").click()
    page.wait_for_selector("#fit[open] dd")
    page.locator("#fit-take").click()
    page.wait_for_url("**/annotate?image=4")
    offered = page.evaluate("fetch('/api/images/4/proposal').then((answer) => answer.json())")
    np.testing.assert_allclose(offered["points"], kite(4), atol=0.02)
    assert "long.parquet" in offered["reason"]


@pytest.mark.parametrize("named", [True, False])
def test_fits_of_images_without_landmarks_are_corrected_at_once(
    start_studio: Callable[..., Studio], new_page: Callable[..., Any], tmp_path: Path, named: bool
) -> None:
    folder = draw_collection(tmp_path / "new", 3, 0)
    results = tmp_path / "fits" if named else folder / "fits"
    results.mkdir()
    rows = [row(str(folder / f"kite_{k}.png"), k) for k in range(3)]
    names = ("top", "right", "bottom", "left", "middle") if named else ()
    write_table(results / "fits.parquet", rows, {}, names)
    studio = start_studio(folder, *(["--results", str(results)] if named else []))
    page = new_page(f"{studio.address}/annotate", viewport={"width": 1280, "height": 800})
    page.wait_for_selector("#stage[data-image='0']")
    if named:
        # Nobody has to name what the fits have.
        assert not page.locator("#object-dialog").is_visible()
    else:
        page.locator("#object-cancel").click()
    opened(page, studio, "fits", "gallery")
    page.locator(".item[aria-posinset='2']").click()
    page.wait_for_selector("#fit[open] dd")
    number = int(page.locator("#fit-title").inner_text().partition("kite_")[2][0])
    page.locator("#fit-take").click()
    page.wait_for_url(f"**/annotate?image={number}")
    page.wait_for_selector(":nth-match(#landmark-list .draft, 5)")
    assert not page.locator("#object-dialog").is_visible()
    assert page.locator("#landmark-list .draft").count() == 5
    assert page.locator("#placed").inner_text() == "0 / 5"
    shown = page.locator("#landmark-list").inner_text()
    assert ("middle" in shown) is named
    page.keyboard.press("Enter")
    page.wait_for_selector(f"#stage:not([data-image='{number}'])")
    page.wait_for_selector("#saving:has-text('saved')")
    studio.end()
    (written,) = pliant.read_annotations(folder / "landmarks.json")
    np.testing.assert_allclose(written.points, kite(number), atol=1e-3)
    assert written.names == names


@pytest.mark.parametrize(
    ("look", "views"),
    [
        (("light", 1280, 800), ("overview", "table", "settings", "fit")),
        (("dark", 390, 844), ("overview", "gallery", "fit")),
    ],
)
def test_nothing_is_in_the_way_of_anybody(
    studio: Studio, new_page: Callable[..., Any], look: tuple[str, int, int], views: tuple[str, ...]
) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python"
    )
    scheme, width, height = look
    page = new_page(viewport={"width": width, "height": height}, color_scheme=scheme, bypass_csp=True)
    page.goto(f"{studio.address}/results")
    page.wait_for_selector(".chart .axes")
    for view in views:
        if view == "fit":
            page.locator("#tab-gallery").click()
            page.locator(".item[aria-posinset='1']").click()
            page.wait_for_selector("#fit[open] dd")
        else:
            page.locator(f"#tab-{view}").click()
            page.wait_for_timeout(100)
        found = axe.Axe().run(page).response["violations"]
        assert not found, [(view, one["id"], one["nodes"][0]["html"][:200]) for one in found]
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{view} is wider than the screen"
