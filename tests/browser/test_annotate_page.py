"""The page Annotate in a browser: what a person does there ends up in the files, whatever happens meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from annotating import drag, eventually, in_file, marks, on_screen, opened, told, waits_until_saved
from running import Studio, draw_collection, kite


def test_a_dragged_point_is_in_the_file(studio: Studio, new_page: Callable[..., Any]) -> None:
    page = opened(new_page(), studio, 0)
    start = in_file(studio.source, 0)[0]
    drag(page, start, start + [12, -7])
    eventually(lambda: np.allclose(in_file(studio.source, 0)[0], start + [12, -7], atol=0.6))
    assert np.allclose(in_file(studio.source, 0)[1:], kite(0)[1:], atol=1e-3)  # and nothing else has moved


def test_a_drag_on_empty_ground_moves_no_point(studio: Studio, new_page: Callable[..., Any]) -> None:
    page = opened(new_page(), studio, 1)
    before = marks(page, 1)
    drag(page, (20, 20), (90, 60))
    page.mouse.wheel(0, -400)
    waits_until_saved(page)
    assert marks(page, 1) == before


def test_points_are_placed_by_name_one_after_another(studio: Studio, new_page: Callable[..., Any]) -> None:
    page = opened(new_page(), studio, 2)
    names = json.loads(page.evaluate("fetch('/api/project').then((answer) => answer.text())"))["names"]
    truth = kite(2)
    for landmark in range(3):
        page.mouse.click(*on_screen(page, truth[landmark]))
        assert told(page) == f"landmark {names[landmark]} placed, next: landmark {names[landmark + 1]}"
    # The fourth by keyboard alone: the crosshair is where the third one is.
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Space")
    page.keyboard.press("x")  # and the fifth is absent
    assert told(page) == f"landmark {names[4]} absent, all 5 are done: press Enter to finish"
    waits_until_saved(page)
    found = marks(page, 2)
    assert found["states"] == [2, 2, 2, 2, 0]
    assert np.allclose(np.array(found["points"][:3]), truth[:3], atol=0.5)
    assert np.allclose(np.subtract(found["points"][3], found["points"][2]), [1, 10], atol=1e-6)
    assert found["points"][4] is None


def test_undo_and_redo(studio: Studio, new_page: Callable[..., Any]) -> None:
    page = opened(new_page(), studio, 1)
    before = in_file(studio.source, 1)
    page.keyboard.press("Control+a")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    waits_until_saved(page)
    eventually(lambda: np.allclose(in_file(studio.source, 1), before + [3, 0], atol=1e-3))
    for steps, moved in (("z", 2), ("z", 1), ("z", 0), ("Shift+Z", 1)):
        page.keyboard.press(f"Control+{steps}")
        eventually(lambda moved=moved: np.allclose(in_file(studio.source, 1), before + [moved, 0], atol=1e-3))


def test_a_group_moves_by_its_handle_alone(studio: Studio, new_page: Callable[..., Any]) -> None:
    page = opened(new_page(), studio, 0)
    before = np.array(marks(page, 0)["points"])
    page.keyboard.press("b")
    drag(page, before[1:4].min(axis=0) - 9, before[1:4].max(axis=0) + 9)
    chosen = ((before > before[1:4].min(axis=0) - 9) & (before < before[1:4].max(axis=0) + 9)).all(axis=1)
    assert told(page) == f"{chosen.sum()} points selected"
    corner = np.array(on_screen(page, before[chosen].min(axis=0))) - 26
    page.mouse.move(*corner)
    page.mouse.down()
    page.mouse.move(*(corner + [40, 20]), steps=3)
    page.mouse.up()
    waits_until_saved(page)
    moved = np.array(marks(page, 0)["points"]) - before
    assert np.allclose(moved[~chosen], 0)
    assert np.ptp(moved[chosen], axis=0).max() < 0.01
    assert moved[chosen][0, 0] == pytest.approx(2 * moved[chosen][0, 1], rel=0.1)


def test_a_proposal_is_written_only_when_it_is_accepted(studio: Studio, new_page: Callable[..., Any]) -> None:
    page, truth = new_page(), kite(3)
    order, followed = [4, 2, 0, 1, 3], []
    proposal = {"points": truth.tolist(), "order": order, "confidence": 0.8, "model": 1, "reason": ""}
    proposal["deviations"] = [[float(order.index(k) == 0) * 40 + 1, 0.2, 1.0] for k in range(5)]

    def follow(route: Any) -> None:
        followed.append(route.request.post_data_json["fixed"])
        route.fulfill(json={"points": (truth + [5, 0]).tolist()})

    page.route("**/proposal", lambda route: route.fulfill(json=proposal))
    page.route("**/refit", lambda route: route.fulfill(json=proposal))
    page.route("**/follow", follow)
    opened(page, studio, 3)
    page.wait_for_selector(":nth-match(#landmark-list .draft, 5)")
    page.keyboard.press("Tab")
    names = [row.split(" ")[0] for row in page.locator("#landmark-list .name").all_text_contents()]
    assert told(page).startswith(f"landmark {names[4]}, proposed, plus or minus 6.4")
    page.keyboard.press("Tab")
    assert told(page).startswith(f"landmark {names[2]}, proposed")
    assert not (studio.source / "kite_3.pts").exists()
    drag(page, truth[0], truth[0] + [10, 10])
    waits_until_saved(page)
    assert followed
    assert all(fixed == [0] for fixed in followed)
    assert marks(page, 3)["states"] == [2, -1, -1, -1, -1]
    page.keyboard.press("Enter")
    page.wait_for_selector("#stage:not([data-image='3'])")
    found = marks(page, 3)
    assert found["finished"]
    assert found["states"] == [2] * 5
    assert np.allclose(found["points"][1:], truth[1:], atol=1e-3)
    eventually(lambda: (studio.source / "kite_3.pts").exists())
    assert np.allclose(in_file(studio.source, 3)[0], truth[0] + [10, 10], atol=0.6)


def test_a_copy_is_moved_by_its_handle_and_written_when_it_is_accepted(
    studio: Studio, new_page: Callable[..., Any]
) -> None:
    page = opened(new_page(), studio, 4)
    copied = np.array(marks(page, marks(page, 4)["previous"])["points"])
    page.keyboard.press("d")
    page.wait_for_selector(":nth-match(#landmark-list .draft, 5)")
    corner = np.array(on_screen(page, copied.min(axis=0))) - 26
    page.mouse.move(*corner)
    page.mouse.down()
    page.mouse.move(*(corner + [60, 30]), steps=3)
    page.mouse.up()
    assert marks(page, 4)["states"] == [-1] * 5
    page.reload()  # what was put somewhere by hand is still there
    page.wait_for_selector(":nth-match(#landmark-list .draft, 5)")
    page.wait_for_selector("#stage[data-image='4']")
    page.keyboard.press("Enter")
    page.wait_for_selector("#stage:not([data-image='4'])")
    moved = np.array(marks(page, 4)["points"]) - copied
    assert np.ptp(moved, axis=0).max() < 0.01
    assert moved[0, 0] == pytest.approx(2 * moved[0, 1], rel=0.1)
    assert moved[0, 1] > 5


def test_two_tabs_on_one_image(studio: Studio, new_page: Callable[..., Any]) -> None:
    one, other = opened(new_page(), studio, 0), opened(new_page(), studio, 0)
    before = np.array(marks(one, 0)["points"])
    drag(one, before[0], before[0] + [8, 3], drop=False)
    drag(other, before[2], before[2] - [6, 4])
    waits_until_saved(other)
    one.wait_for_timeout(150)  # it hears of the other's change in the middle of its own drag
    one.mouse.up()
    waits_until_saved(one)
    expected = before.copy()
    expected[0] += [8, 3]
    expected[2] -= [6, 4]
    assert np.allclose(marks(one, 0)["points"], expected, atol=0.6)
    eventually(lambda: np.allclose(in_file(studio.source, 0), expected, atol=0.6))
    # The first tab shows the other's point where it is now: it can be taken there.
    drag(one, expected[2], before[2])
    waits_until_saved(one)
    assert np.allclose(marks(one, 0)["points"][2], before[2], atol=0.9)


def test_closing_the_tab_at_once_loses_nothing(studio: Studio, new_page: Callable[..., Any]) -> None:
    page = opened(new_page(), studio, 1)
    start = in_file(studio.source, 1)[1]
    drag(page, start, start + [9, 9])
    page.close()
    eventually(lambda: np.allclose(in_file(studio.source, 1)[1], start + [9, 9], atol=0.6))
    page = opened(new_page(), studio, 1)
    drag(page, start + [9, 9], start, drop=False)
    page.goto("about:blank")  # left in the middle of a drag
    eventually(lambda: np.allclose(in_file(studio.source, 1)[1], start, atol=0.9))


def test_killing_the_server_during_saves_loses_nothing(studio: Studio, new_page: Callable[..., Any]) -> None:
    page, other = opened(new_page(), studio, 0), opened(new_page(), studio, 1)
    before = [in_file(studio.source, number) for number in (0, 1)]
    page.keyboard.press("Control+a")
    other.keyboard.press("Control+a")
    for press in range(12):
        page.keyboard.press("ArrowRight")
        if press == 5:
            studio.kill()
    other.keyboard.press("ArrowDown")
    page.wait_for_selector("#saving:has-text('waiting')")
    page.close(run_before_unload=False)
    studio.start()
    # A page that stays open goes on by itself; what a closed one could not send is sent by the next.
    later = opened(new_page(), studio, 0)
    waits_until_saved(later)
    waits_until_saved(other)
    eventually(lambda: np.allclose(in_file(studio.source, 0), before[0] + [12, 0], atol=1e-3))
    eventually(lambda: np.allclose(in_file(studio.source, 1), before[1] + [0, 1], atol=1e-3))
    assert np.allclose(marks(later, 0)["points"], before[0] + [12, 0], atol=1e-3)


def test_an_image_that_cannot_be_read_says_so(studio: Studio, new_page: Callable[..., Any]) -> None:
    picture = studio.source / "kite_5.png"
    good = picture.read_bytes()
    picture.write_text("this is no image")
    try:
        page = opened(new_page(), studio, 5)
        assert "kite_5.png" in page.locator("#unreadable").inner_text()
        page.click("#unreadable button")
        page.wait_for_selector("#stage:not([data-image='5'])")
    finally:
        picture.write_bytes(good)


def test_what_is_read_only_says_why(studio: Studio, new_page: Callable[..., Any]) -> None:
    page = new_page()

    def answer(route: Any) -> None:
        route.fulfill(json={**route.fetch().json(), "read_only": "This format cannot be written back."})

    page.route("**/api/project", answer)
    opened(page, studio, 1)
    assert page.locator("#banner").inner_text() == "This format cannot be written back."
    before = marks(page, 1)
    start = np.array(before["points"][0])
    drag(page, start, start + [20, 0])
    page.keyboard.press("x")
    assert marks(page, 1) == before


def test_curves_and_views(studio: Studio, new_page: Callable[..., Any]) -> None:
    page = new_page(f"{studio.address}/annotate")

    def ask(script: str) -> Any:
        modules = """const { resampled, objectFrom, textOf } = await import("/pages/curves.js");
            const { View } = await import("/pages/view.js");"""
        return page.evaluate(f"async () => {{ {modules} {script} }}")

    bent = np.array(ask("return resampled([[0, 0], [30, 0], [30, 0], [30, 10]], 5)"))
    assert np.allclose(bent, [[0, 0], [10, 0], [20, 0], [30, 0], [30, 10]])
    ring = np.array(ask("return resampled([[0, 0], [4, 0], [4, 4], [0, 4]], 8, true)"))
    assert np.allclose(np.linalg.norm(np.roll(ring, -1, axis=0) - ring, axis=1), 2)
    text = "tip\\njaw 1-17\\neye 1-8 closed\\nnotch\\n0-9\\ncurve rim: notch, 2 .. 7 closed"
    found = ask(f'const made = objectFrom("{text}"); return {{ ...made, text: textOf(made) }}')
    assert (len(found["names"]), found["names"][1], found["names"][-1]) == (37, "jaw 1", "9")
    assert [(one["name"], len(one["points"]), one["closed"]) for one in found["curves"]] == [
        ("jaw", 17, False),
        ("eye", 8, True),
        ("rim", 7, True),
    ]
    assert found["text"] == text.replace("\\n", "\n")
    for mirror in ("false", "true"):  # a zoom holds what is under the pointer, and both ways agree
        held, back = ask(
            f"""const view = new View(); view.image = {{ width: 90, height: 50 }}; view.mirror = {mirror};
            view.resize(400, 300); view.fit(); const before = view.toImage([100, 80]); view.zoom(3, [100, 80]);
            return [[before, view.toImage([100, 80])], view.toImage(view.toScreen([7, 9]))]"""
        )
        assert np.allclose(*held)
        assert np.allclose(back, [7, 9])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible(studio: Studio, new_page: Callable[..., Any], scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    narrow = scheme == "dark"
    size = {"width": 390, "height": 844} if narrow else {"width": 1280, "height": 800}
    page = opened(new_page(color_scheme=scheme, viewport=size, bypass_csp=True), studio, 0, "&points=1")
    page.click("#tab-landmarks" if narrow else "#view-menu summary")
    found = axe.run(page).response["violations"]
    serious = [
        (one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")
    ]
    assert not serious, serious


def test_a_new_object_from_its_names_to_millimetres(
    start_studio: Callable[..., Studio], new_page: Callable[..., Any], tmp_path: Path
) -> None:
    draw_collection(tmp_path)
    for file in tmp_path.glob("*.pts"):
        file.unlink()
    studio = start_studio(tmp_path)
    page = opened(new_page(accept_downloads=True), studio, 0)
    summaries = {"tip": "1 landmark, no curves", "1-15": "15 landmarks, no curves"}
    for text, said in {**summaries, "tip\nedge 1-4": "5 landmarks, 1 curve"}.items():
        page.fill("#object-names", text)
        assert page.inner_text("#object-summary") == said
    page.click("#object-form button.main")
    page.wait_for_selector("#hint:has-text('tip')")
    page.mouse.click(*on_screen(page, (40, 40)))
    # A curve, drawn with two clicks, becomes four points at even distances.
    page.keyboard.press("k")
    page.mouse.click(*on_screen(page, (50, 60)))
    page.mouse.click(*on_screen(page, (110, 60)))
    page.keyboard.press("Enter")
    # A bar of 80 pixels is 2 mm long.
    page.keyboard.press("r")
    drag(page, (30, 100), (110, 100))
    page.fill("#scale-length", "2")
    page.click("#scale-form button.main")
    waits_until_saved(page)
    page.focus("#overlay")
    page.keyboard.press("Enter")
    page.wait_for_selector("#stage[data-image]:not([data-image='0'])")
    page.keyboard.press("Shift+R")
    waits_until_saved(page)
    second = int(page.locator("#stage").get_attribute("data-image"))
    found = [marks(page, 0), marks(page, second)]
    assert np.allclose(found[0]["points"], [[40, 40], [50, 60], [70, 60], [90, 60], [110, 60]], atol=0.6)
    assert found[1]["scale"] == found[0]["scale"]
    page.click("#export")
    page.select_option("#export-format", "csv-mm")
    with page.expect_download() as download:
        page.click("#export-form button.main")
    table = Path(download.value.path()).read_text().splitlines()
    assert np.allclose([float(cell) for cell in table[1].split(",")[1:3]], [1.0, 1.0], atol=0.03)
