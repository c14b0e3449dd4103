"""What people decide on shows what would hide or reorder it."""

from __future__ import annotations

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site

ROWS = """async (diff) => {
  const { renderDiff } = await import("/web/js/diff.js");
  const cells = renderDiff(diff, (key) => key).querySelectorAll(".diff-text");
  return [...cells].map((cell) => cell.lastChild.textContent);
}"""
VISIBLE = """async (text) => (await import("/web/js/hidden.js")).visible(text)"""


def test_overrides_of_direction_and_odd_line_ends_are_seen_in_a_diff(
    offline_site: Site, open_page: OpenPage
) -> None:
    page = open_page(offline_site, None)
    diff = "--- a\n+++ b\n@@ -1 +1 @@\n-run()\n+/*\u202e } \u2066if (admin)*/ run() //\r-check()\x0bx"
    assert page.evaluate(ROWS, diff) == [
        "run()",
        "/*⟨U+202E⟩ } ⟨U+2066⟩if (admin)*/ run() //␍-check()⟨U+000B⟩x",
    ]
    assert (
        page.evaluate(VISIBLE, "می\u200cخواهم שלום\u200f 👩\u200d👩\ttab")
        == "می\u200cخواهم שלום\u200f 👩\u200d👩\ttab"
    )
