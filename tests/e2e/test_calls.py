"""Calls on the page: one followed while it goes on, a caller's proposal decided, talking
from the browser.
"""

from __future__ import annotations

import re
import wave
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from graphrag.simulator import mu_law
from graphrag.simulator.speech import speech
from tests.e2e.conftest import CHROMIUM, FLAGS, PATIENCE_MS, OpenPage, Trouble
from tests.e2e.site import Site, running_site
from tests.e2e.talk import card, node, press
from tests.e2e.test_review import key_of, signed_in
from tests.e2e.voice import ANSWER, CHANGE_IT, QUESTION, VoiceLoop, running_voice, voice_agent
from tests.support.service import SECRET, token

PANEL = "calls"
LIT = re.compile(r"\blit\b")
Contexts = Callable[..., BrowserContext]


@pytest.fixture(scope="module")
def voice() -> Iterator[VoiceLoop]:
    with running_voice() as running:
        yield running


@pytest.fixture
def place(tmp_path: Path, voice: VoiceLoop) -> Iterator[Site]:
    """A service with sign-in whose agent answers calls by the double."""
    with running_site(tmp_path, graph=False, auth_secret=SECRET, **voice.settings()) as site:
        site.import_graph(token=token("ed", "editor"))
        admin = token("ada", "admin")
        document = voice_agent(key_of(site))
        site.rest("PUT", "/api/agents/desk", token=admin, json={"document": document})
        site.rest("POST", "/api/agents/desk/start", token=admin)
        yield site


def test_a_call_is_followed_and_the_caller_gets_to_know_what_a_reviewer_decides(
    place: Site, voice: VoiceLoop, open_page: OpenPage, contexts: Contexts, trouble: Trouble
) -> None:
    """Words, interruption, tools, lit nodes, proposal, audit, end and forgetting; a viewer has
    none of it.
    """
    key = key_of(place)
    page = open_page(place, key, panel=PANEL, context=signed_in(contexts, "ada", "admin"))
    panel = page.locator(f"#panel-{PANEL}")
    expect(panel).to_contain_text("nodius call AGENT")
    call_id, phone = voice.call(place, "desk", token("ed", "editor"))
    row = panel.locator(f".call-row[data-call='{call_id}']")
    expect(row).to_contain_text("on the line")
    expect(panel.locator(".auto-three .is-live")).to_have_text("1")  # going on
    row.press("Enter")
    page.wait_for_url(f"**panel={PANEL}&call={call_id}")
    voice.say(phone, QUESTION)
    said = panel.locator(".call-said")
    expect(said.locator(".is-user").last).to_contain_text(QUESTION)
    expect(panel).to_contain_text("search_nodes")
    expect(node(page, "fetch-api")).to_have_class(LIT)
    expect(said.locator(".is-assistant").last).to_contain_text("When fetching")
    page.wait_for_timeout(600)  # in the middle of the answer
    voice.say(phone, CHANGE_IT)
    cut = said.locator(".is-assistant", has=page.locator("s"))
    expect(cut).to_contain_text("interrupted")
    heard = cut.locator("p").inner_text()
    lost = cut.locator("s").inner_text()
    assert lost
    assert lost in ANSWER
    assert heard.startswith("When")

    waiting = card(page, "pending", PANEL)
    expect(waiting).to_contain_text("asked for by somebody on the telephone")
    code = re.search(r"code (\w+ \w+ \d\d)", waiting.inner_text())
    assert code is not None
    expect(page.locator(".ghost")).not_to_have_count(0)
    press(waiting, "Approve")
    expect(card(page, "applied", PANEL)).to_contain_text("Approved by you")
    expect(said.locator(".is-assistant").last).to_contain_text(f"the code {code[1]} was decided")
    expect(node(page, "fetch-api")).to_contain_text("Get the players")
    entries = place.rest("GET", "/api/audit", token=token("ada", "admin"))["entries"]
    assert {entry.get("asker") for entry in entries if "asker" in entry} == {f"caller:{call_id}"}

    panel.get_by_role("button", name="End call").press("Enter")
    expect(panel.locator(".call-view .auto-three")).to_contain_text("a person ended it")
    expect(node(page, "fetch-api")).not_to_have_class(LIT)
    press(panel, "Forget")
    press(page.locator("dialog"), "Forget")
    expect(row).to_be_visible()
    row.click()
    expect(panel).to_contain_text("Nothing is kept of what was said")
    page.reload()
    expect(panel).to_contain_text("Nothing is kept of what was said")
    assert QUESTION not in str(
        place.rest("GET", f"/api/calls/{call_id}", token=token("ada", "admin"))
    )

    viewer = open_page(place, key, panel=PANEL, context=signed_in(contexts, "vi", "viewer"))
    expect(viewer.locator("#tab-chat")).to_have_attribute("aria-selected", "true")
    expect(viewer.locator(f"#tab-{PANEL}")).to_have_count(0)
    trouble.forgive("404")


def microphone(folder: Path, voice: VoiceLoop, text: str) -> Path:
    """Write what a person says after a second, and again where nobody answered in
    time, as a recording.
    """
    sound = mu_law.decode(voice.run(speech().say(text, "en")))
    path = folder / "microphone.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(mu_law.RATE_HZ)
        quiet = bytes(2 * mu_law.RATE_HZ)
        file.writeframes(quiet + 3 * (sound.astype("<i2").tobytes() + 15 * quiet))
    return path


def test_a_person_talks_with_an_agent_from_the_browser_and_hangs_up(
    place: Site, voice: VoiceLoop, tmp_path: Path, browser: Browser, trouble: Trouble
) -> None:
    """Where the microphone is refused, nobody is called; an editor sees their own call,
    and no other.
    """
    voice.double.hear([QUESTION] * 9)  # a busy machine may tear what is said apart
    flags = [
        *FLAGS,
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={microphone(tmp_path, voice, QUESTION)}",
    ]
    heard = browser.browser_type.launch(executable_path=CHROMIUM, args=flags)
    context = heard.new_context(locale="en-US", viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE_MS)
    script = f"sessionStorage.setItem('nodius.token', '{token('ed', 'editor')}')"
    context.add_init_script(f"if (location.protocol === 'http:') {script}")
    page = context.new_page()
    trouble.watch(page)
    page.goto(f"{place.url}#graph={key_of(place)}&sheet=0&panel={PANEL}")
    panel = page.locator(f"#panel-{PANEL}")
    talk = panel.locator(".talk")
    press(talk, "Talk")
    expect(talk.get_by_role("alert")).to_contain_text("not allowed to use the microphone")
    assert place.rest("GET", "/api/calls", token=token("ada", "admin"))["calls"] == []
    context.grant_permissions(["microphone"])
    press(talk, "Talk")
    expect(talk.locator(".is-listening")).to_be_visible()
    said = panel.locator(".call-said")
    expect(said.locator(".is-user").last).to_contain_text(QUESTION)
    expect(talk.locator(".is-speaking")).to_be_visible()
    expect(said.locator(".is-assistant").last).to_contain_text(ANSWER)
    expect(talk.locator(".is-listening")).to_be_visible()  # all of it was played
    talk.get_by_role("button", name="Hang up").press("Enter")
    expect(panel.locator(".call-view .auto-three")).to_contain_text("the caller hung up")
    expect(talk.get_by_role("button", name="Talk")).to_be_enabled()
    press(panel, "Back to the calls")
    expect(panel).to_contain_text("is for reviewers")
    heard.close()
    (call,) = place.rest("GET", "/api/calls", token=token("ada", "admin"))["calls"]
    assert (call["channel"], call["endReason"]) == ("browser", "caller_hung_up")
    whole = place.rest("GET", f"/api/calls/{call['callId']}", token=token("ada", "admin"))
    assert [one["content"] for one in whole["transcript"] if not one.get("interrupted")][
        -1
    ] == ANSWER
