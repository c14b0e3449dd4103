"""Every part of the page as axe-core checks it, in both themes: nothing that keeps somebody from using it."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.e2e.canvas_scenes import SCENES
from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.scenes import Scene
from tests.e2e.site import Site
from tests.support.scripted_provider import ScriptedProvider

NAMED = re.compile(
    r'^ *- (button|link|tab|menuitem|dialog|region|heading|img) "((?:[^"\\]|\\.)*)"', re.MULTILINE
)
BARE_KEY = re.compile(r"[a-z]+[0-9]*(?:[-_.][a-z0-9]+)+|[0-9a-f]{12,}|\{\w+\}")
"""What a screen reader must not be given as a name: `fetch-api`, `graphs.title`, an id."""
COLOURS_REST = "() => !document.getAnimations().some((one) => one instanceof CSSTransition)"
EXPECTED = {
    "agent_document": ("422",),
    "graph_gone": ("404",),
    "server_away": ("ERR_CONNECTION", "WebSocket"),
    "sign_in": ("401",),
}
"""What the browser says of the answers that a scene is about."""


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_nothing_keeps_somebody_from_using(
    scene: Scene, site: Site, script: ScriptedProvider, open_page: OpenPage, trouble: Trouble
) -> None:
    """Both themes as axe-core sees them, and names in words: no control is called by a key of the graph."""
    page = scene(open_page, site, script, "light")
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_function(COLOURS_REST)
        found = Axe().run(page).response["violations"]
        wrong = [
            f"{theme} {one['impact']} {one['id']}: {at['html'][:160]} {at['failureSummary'][:260]}"
            for one in found
            for at in one["nodes"]
        ]
        assert not wrong, "\n".join(wrong)
    named = NAMED.findall(page.locator("body").aria_snapshot())
    assert len(named) > 3
    assert [one for one in named if BARE_KEY.fullmatch(one[1])] == []
    trouble.forgive(*EXPECTED.get(scene.__name__, ()))
