"""Text of models as the page's own renderer shows it."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.talk import HOSTILE, answered
from tests.support.scripted_provider import ScriptedProvider

RENDER = """async (text) => {
  const { createMarkdown } = await import("/web/js/markdown.js");
  const box = document.createElement("div");
  const bold = (textContent) => Object.assign(document.createElement("b"), { textContent });
  createMarkdown(box, { link: (kind, body) => bold(`${kind}=${body}`) }).update(text);
  return box.innerHTML;
}"""
GROWN = """async (text) => {
  const { createMarkdown } = await import("/web/js/markdown.js");
  const [grown, whole] = [document.createElement("div"), document.createElement("div")];
  const view = createMarkdown(grown);
  for (let end = 0; end <= text.length; end += 3) view.update(text.slice(0, end));
  view.update(text);
  createMarkdown(whole).update(text);
  return [grown.innerHTML, whole.innerHTML];
}"""
DIFF = """async (text) => (await import("/web/js/diff.js")).parseDiff(text)"""


def test_markdown_becomes_the_elements_it_means(page: Page) -> None:
    cases = {
        "# Title": '<h3 class="md-h1">Title</h3>',
        "a **b** *c* ~~d~~ `e`": "<p>a <strong>b</strong> <em>c</em> <del>d</del> <code>e</code></p>",
        "snake_case_name 2 * 3 * 4": "<p>snake_case_name 2 * 3 * 4</p>",
        "- a\n- b\n  1. c": "<ul><li>a</li><li>b<ol><li>c</li></ol></li></ul>",
        "3. c\n4. d": '<ol start="3"><li>c</li><li>d</li></ol>',
        "> q": "<blockquote><p>q</p></blockquote>",
        "a\nb": "<p>a<br>b</p>",
        "---": "<hr>",
        "see {{node:a-1}}.": "<p>see <b>node=a-1</b>.</p>",
        "{{ $json.id }} {{node:a": "<p>{{ $json.id }} {{node:a</p>",
        r"\*no\* \{{node:a}}": "<p>*no* {{node:a}}</p>",
        "**open": "<p>**open</p>",
    }
    assert {text: page.evaluate(RENDER, text) for text in cases} == cases


def test_a_name_that_a_link_shows_does_not_stand_twice(page: Page) -> None:
    cases = {
        "{{node:a}} “node=a” (x)": "<p><b>node=a</b> (x)</p>",
        '- {{node:a}} "node=a": next': "<ul><li><b>node=a</b>: next</li></ul>",
        "{{node:a}} « node=a »": "<p><b>node=a</b></p>",
        "{{node:a}} “node…” ends": "<p><b>node=a</b> ends</p>",
        "{{node:a}} “another”": "<p><b>node=a</b> “another”</p>",
        "{{node:a}} node=a": "<p><b>node=a</b> node=a</p>",
        "{{node:a}} “node=a": "<p><b>node=a</b> “node=a</p>",
    }
    assert {text: page.evaluate(RENDER, text) for text in cases} == cases


def test_only_links_to_the_web_are_links(page: Page) -> None:
    good = page.evaluate(RENDER, "[x](https://example.org/a) and http://example.org/b.")
    assert good.count("<a ") == 2
    assert good.count('rel="noopener noreferrer nofollow"') == 2
    for url in (
        "javascript:alert(1)",
        "data:text/html,x",
        "//example.org",
        "JaVaScRiPt:x",
        "vbscript:x",
    ):
        assert "<a" not in page.evaluate(RENDER, f"[x]({url}) {url} <{url}>")


def test_html_is_text_wherever_it_stands(page: Page) -> None:
    blocks = (
        "# {}",
        "- {}",
        "| {0} |\n|---|\n| {0} |",
        "```{0}\n{0}\n```",
        "> {}",
        "**{}**",
        "[{}](https://a.b)",
    )
    text = "\n\n".join(block.format(HOSTILE) for block in blocks)
    shown = page.evaluate(RENDER, text)
    assert "&lt;img src=x" in shown
    for tag in ("<img", "<script", "<svg"):
        assert tag not in shown


def test_a_text_that_grows_ends_as_the_whole_text_does(page: Page) -> None:
    blocks = (
        "# A",
        "text **bold",
        "- one\n- two",
        "```js\nconst a;\n\n```",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "end",
    )
    text = "\n\n".join(blocks)
    grown, whole = page.evaluate(GROWN, text)
    assert grown == whole


@pytest.mark.parametrize(
    "piece",
    [
        "**a ",
        "[",
        "`",
        "{{node:",
        "> ",
        "  - a\n",
        "| a |\n|---|\n",
        "*_~`[{",
        "https://",
        "\\",
        "1. ",
    ],
)
def test_any_heap_of_signs_is_shown(page: Page, piece: str) -> None:
    text = piece * 6_000
    assert page.evaluate(RENDER, text)


def test_a_diff_is_read_with_its_line_numbers(page: Page) -> None:
    rows: list[dict[str, Any]] = page.evaluate(
        DIFF, "--- a\n+++ b\n@@ -2,3 +2,3 @@\n same\n-old\n+new\n--- dashes\n@@ -9 +9 @@\n+last"
    )
    assert [(row["kind"], row["before"], row["after"], row["text"]) for row in rows] == [
        ("same", 2, 2, "same"),
        ("removed", 3, None, "old"),
        ("added", None, 3, "new"),
        ("removed", 4, None, "-- dashes"),
        ("gap", None, None, ""),
        ("added", None, 9, "last"),
    ]


def test_a_block_is_chosen_by_keys_shown_with_its_tokens_and_sent_with_the_message(
    page: Page, script: ScriptedProvider
) -> None:
    script.play("It fetches the players.")
    field = page.locator("#composer")
    field.press_sequentially("a@b @")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("searchbox").fill("use fetch nba")
    page.keyboard.press("Enter")
    block = page.locator(".blocks .block")
    expect(block).to_contain_text("tokens")
    expect(block).to_contain_text("Fetch NBA players")
    expect(field).to_be_focused()
    page.keyboard.type("what is it? @")
    page.keyboard.press("Escape")
    expect(field).to_have_value("a@b what is it? @")
    field.press("Enter")
    answered(page, "It fetches the players.")
    expect(block).to_have_count(0)
    said = page.locator(".turn.is-user")
    shown = said.inner_text()
    assert shown.startswith("a@b [")
    page.reload()
    expect(said).to_have_text(shown)
