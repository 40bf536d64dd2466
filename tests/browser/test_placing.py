"""The page Annotate in a browser: clicks place the landmark that is due, and the page says which one that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from annotating import marks, on_screen, opened, waits_until_saved
from running import Studio, draw_collection


@pytest.fixture(scope="module")
def opens(
    start_studio: Callable[..., Studio], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Any], Any]:
    """Open an image that nobody has begun with; only the first one of the folder is finished."""
    studio = start_studio(draw_collection(tmp_path_factory.mktemp("placing"), images=12, annotated=1))
    numbers = iter(range(1, 12))
    return lambda page: opened(page, studio, next(numbers))


@pytest.fixture
def page(opens: Callable[[Any], Any], new_page: Callable[..., Any]) -> Any:
    return opens(new_page())


def click(page: Any, point: Any, off: tuple[float, float] = (0, 0)) -> None:
    """Click at a point of the image, or some pixels of the screen away from it."""
    page.mouse.click(*(np.array(on_screen(page, point)) + off))


def hint(page: Any) -> str:
    page.wait_for_timeout(50)  # it is drawn in the next frame
    return str(page.locator("#hint").text_content())


def found(page: Any) -> dict[str, Any]:
    """What the server has of the image that is open."""
    waits_until_saved(page)
    return marks(page, int(page.url.partition("image=")[2]))


def states(page: Any) -> list[int]:
    return list(found(page)["states"])


def test_a_click_beside_a_point_places_the_next_landmark(page: Any) -> None:
    first = (100.0, 80.0)
    click(page, first)
    click(page, first, (8, 0))
    assert states(page) == [2, 2, -1, -1, -1]
    places = np.array([on_screen(page, point) for point in found(page)["points"][:2]])
    assert np.allclose(places[1] - places[0], (8, 0), atol=0.1)
    # Right on a point a click takes it, and the page says so and what to do.
    click(page, first, (-2, 1))
    assert states(page) == [2, 2, -1, -1, -1]
    assert hint(page) == "Landmark 0 is selected. To place landmark 2 here, press Space."
    page.keyboard.press("Space")
    assert states(page) == [2, 2, 2, -1, -1]
    # A drag that begins beside a point moves it.
    page.keyboard.press("Escape")
    start = np.array(on_screen(page, first)) + (0, -8)
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*(start + (-60, 30)), steps=3)
    page.mouse.up()
    assert states(page) == [2, 2, 2, -1, -1]
    moved = np.subtract(on_screen(page, found(page)["points"][0]), on_screen(page, first))
    assert np.allclose(moved, (-60, 30), atol=1)
    page.mouse.move(*on_screen(page, (200, 200)))
    assert hint(page) == "Landmark 0 is selected. Click elsewhere to place landmark 3."


def test_a_chosen_landmark_is_placed_beside_another(page: Any) -> None:
    click(page, (100, 80))
    page.click("#landmark-3")
    click(page, (100, 80), (0, 7))
    assert states(page) == [2, -1, -1, 2, -1]


def test_a_click_on_a_handle_places_the_next_landmark(page: Any) -> None:
    click(page, (100, 80))
    click(page, (160, 120))
    click(page, (100, 80), (-26, -26))  # where the handle lies that moves both
    assert states(page) == [2, 2, 2, -1, -1]
    before = np.array(found(page)["points"][:3])
    corner = np.array(on_screen(page, before.min(axis=0))) - 26
    page.mouse.move(*corner)
    page.mouse.down()
    page.mouse.move(*(corner + (30, 30)), steps=3)
    page.mouse.up()
    assert states(page) == [2, 2, 2, -1, -1]
    assert np.ptp(np.array(found(page)["points"][:3]) - before, axis=0).max() < 0.01


def test_once_all_points_are_removed_the_first_landmark_is_next(page: Any) -> None:
    for k in range(5):
        click(page, (60 + 30 * k, 100))
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    assert states(page) == [-1] * 5
    assert hint(page) == "Click to place landmark 0"
    click(page, (100, 80))
    click(page, (150, 90))
    assert states(page) == [2, 2, -1, -1, -1]


def test_what_is_undone_is_placed_next(page: Any) -> None:
    for k in range(3):
        click(page, (60 + 30 * k, 100))
    waits_until_saved(page)
    for left in (2, 1):
        page.keyboard.press("Control+z")
        page.wait_for_selector(f"#placed:text-is('{left} / 5')")
    click(page, (200, 80))
    assert states(page) == [2, 2, -1, -1, -1]


def test_what_is_not_placed_is_named(page: Any) -> None:
    rest = "press X if {} absent, or press Enter again to finish anyway."
    for count, said in (
        (
            1,
            "4 of 5 landmarks are not placed yet (1, 2, 3, …). Click where each is, "
            + rest.format("they are"),
        ),
        (4, "Landmark 4 is not placed yet. Click where it is, " + rest.format("it is")),
    ):
        page.reload()
        page.wait_for_selector(f"#stage[data-image='{page.url.partition('image=')[2]}']")
        for k in range(found(page)["states"].count(2), count):
            click(page, (60 + 30 * k, 100))
        page.keyboard.press("Enter")
        page.wait_for_selector(f"#messages :text-is('{said}')")
    assert not found(page)["finished"]


def lay_template(page: Any) -> np.ndarray:
    """Where the mean shape lies, once it is there."""
    page.keyboard.press("t")
    page.wait_for_selector(":nth-match(#landmark-list .draft, 5)")
    index = page.url.partition("image=")[2]
    asked = f"fetch('/api/images/{index}/template').then((answer) => answer.json())"
    return np.array(page.evaluate(asked)["points"])


def move_template(page: Any, lies: np.ndarray, off: tuple[float, float]) -> None:
    """Drag the handle that moves all of it."""
    corner = np.array(on_screen(page, lies.min(axis=0))) - 26
    page.mouse.move(*corner)
    page.mouse.down()
    page.mouse.move(*(corner + off), steps=3)
    page.mouse.up()


@pytest.mark.parametrize("key", ["Escape", "Control+z"])
def test_the_mean_shape_says_what_to_do_and_goes_away(page: Any, key: str) -> None:
    lay_template(page)
    assert hint(page).startswith("Drag the handles of the mean shape to bring it into place")
    page.keyboard.press("Enter")
    page.wait_for_selector("#messages :text('Nothing of the mean shape was moved yet.')")
    assert not found(page)["finished"]
    page.keyboard.press(key)
    page.wait_for_selector("#landmark-list:not(:has(.draft))")
    assert hint(page) == "Click to place landmark 0"


def test_undo_takes_the_mean_shape_back_step_by_step(page: Any) -> None:
    lies = lay_template(page)
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.wait_for_selector("#landmark-list:not(:has(.draft))")
    page.keyboard.press("Control+z")
    page.wait_for_selector(":nth-match(#landmark-list .draft, 5)")
    move_template(page, lies, (40, 20))
    start = np.array(on_screen(page, lies[0])) + (40, 20)
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*(start + (0, -30)), steps=3)
    page.mouse.up()
    assert states(page) == [2, -1, -1, -1, -1]
    page.keyboard.press("Control+z")  # the point
    page.wait_for_selector("#told:text-is('undone')", state="attached")
    assert states(page) == [-1] * 5
    assert page.locator("#landmark-list .draft").count() == 5
    page.keyboard.press("Control+z")  # the move
    page.keyboard.press("Enter")  # of which nothing is left
    page.wait_for_selector("#messages :text('Nothing of the mean shape was moved yet.')")
    page.keyboard.press("Control+z")
    page.wait_for_selector("#landmark-list:not(:has(.draft))")
    assert states(page) == [-1] * 5


def test_the_mean_shape_is_accepted_where_it_was_put(page: Any) -> None:
    lies = lay_template(page)
    move_template(page, lies, (40, 20))
    index = int(page.url.partition("image=")[2])
    page.keyboard.press("Enter")
    page.wait_for_selector(f"#stage:not([data-image='{index}'])")
    moved = np.subtract(marks(page, index)["points"], lies)
    assert np.ptp(moved, axis=0).max() < 0.01
    assert moved[0, 0] == pytest.approx(2 * moved[0, 1], rel=0.1)
    assert moved[0, 1] > 5
