"""The morning view as a message: told once a day by webhook and mail, whatever servers run."""

from email import message_from_string, policy
from pathlib import Path
from typing import Any

import pytest

from datasources.mock import MemoryDatabase
from datasources.types import ROOT_WORKSPACE
from graphrag.app.today import TodayPlace
from graphrag.config import SettingsError
from graphrag.delivery_queue import DELAYS_MS
from graphrag.roles import Person
from server.digest import Digests
from server.mail import Mailer, MailTarget
from server.webhook_target import WebhookTarget
from server.webhooks import Webhooks
from tests.server.test_rest_today import ran
from tests.server.test_webhooks import listening
from tests.support.automations import finish
from tests.support.chosen_database import address_in
from tests.support.databases import nba_file
from tests.support.scripted_provider import ScriptedProvider
from tests.support.service import GRAPH, Service, service, settings_of
from tests.support.smtp_server import smtp_server
from tests.support.waiting import until

SEVEN = 1_767_250_800_000  # 2026-01-01T07:00 in UTC
FOUND = "- Node fetch-api has no error output\n- The log is never read"


def mailed(port: int, **more: Any) -> dict[str, Any]:
    return {
        "notify_smtp_url": f"smtp://me%40x:secret@127.0.0.1:{port}",
        "notify_mail_to": "ada@example.com, bob@example.com",
        "notify_digest_at": "07:00",
        **more,
    }


def digests_of(running: Service, url: str, port: int, now: int) -> tuple[Digests, Mailer, Webhooks]:
    """The digests of another server on the database of one, at a time."""
    settings = settings_of(notify_url=url, public_url="https://nodius.example.com", **mailed(port))
    records = running.state.backend.shared.database.records(ROOT_WORKSPACE)
    webhooks = Webhooks(WebhookTarget.of(settings), records, clock=lambda: now)
    mailer = Mailer(MailTarget.of(settings), records, clock=lambda: now)

    async def place(person: Person) -> TodayPlace:
        workspace = await running.state.workspace(person.workspace)
        store = workspace.automations.store
        return TodayPlace(services=workspace.services, automations=store, person=person)

    async def names() -> list[str]:
        return ["default"]

    made = Digests(settings, webhooks, mailer, workspaces=names, place=place, clock=lambda: now)
    return made, mailer, webhooks


async def test_a_day_is_told_once_by_webhook_and_mail_although_two_servers_send(
    tmp_path: Path,
) -> None:
    nights = ScriptedProvider(finish("findings", FOUND), finish("failed", "No."))
    draft = {"graphKey": GRAPH, "name": "Nightly", "message": "Check", "onlyIfChanged": False}
    with listening(200, 200) as (url, seen), smtp_server() as mail:
        db = address_in(await nba_file(tmp_path))
        async with service(nights, db=db) as running, running.as_() as ed:
            automation = (await ed.post("/api/automations", json=draft)).json()["id"]
            for _ in range(2):
                await ran(running, ed, automation)
            now = (await ed.get("/api/today")).json()["now"]
            at_seven = now - now % 86_400_000 + 7 * 3_600_000
            before = digests_of(running, url, mail.port, at_seven - 1)
            assert await before[0].look() == 0
            servers = [digests_of(running, url, mail.port, max(now, at_seven)) for _ in range(2)]
            for digests, _, _ in servers:
                await digests.look()
                await digests.look()
            for _, mailer, webhooks in servers:
                await webhooks.send_due()
                await mailer.send_due()
            await until(lambda: len(seen) == 1 and len(mail.messages) == 1)
            for _, mailer, webhooks in (before, *servers):
                await mailer.aclose()
                await webhooks.aclose()
    [hook] = seen
    assert (hook["event"], hook["workspace"]) == ("daily_digest", "default")
    [finding], [failed] = hook["findings"], hook["runs"]
    assert (finding["new"], failed["state"]) == (0, "failed")
    assert failed["address"].startswith(f"#graph={GRAPH}&panel=automations&run=auto%2F")
    sent = message_from_string(mail.messages[0], policy=policy.default)
    assert mail.users == ["me@x"]
    assert mail.recipients == ["ada@example.com", "bob@example.com"]
    body = sent.get_body().get_content()  # type: ignore[union-attr]
    assert "https://nodius.example.com/#graph=" in body
    assert "Nightly: failed" in body
    assert "fetch-api" not in body


async def test_a_mail_that_is_put_off_is_sent_again_and_once() -> None:
    now = [SEVEN]
    with smtp_server(refusals=1) as mail:
        records = MemoryDatabase().records(ROOT_WORKSPACE)
        target = MailTarget.of(settings_of(**mailed(mail.port)))
        mailer = Mailer(target, records, clock=lambda: now[0])
        await mailer.send("digest_w_1", "Bonjour à tous", "Été\n.a line of its own\n")
        await mailer.send("digest_w_1", "again", "again")
        assert (await mailer.send_due(), mail.messages) == (1, [])
        now[0] += DELAYS_MS[0]
        assert await mailer.send_due() == 1
        assert await mailer.send_due() == 0
        await mailer.aclose()
    [text] = mail.messages
    sent = message_from_string(text, policy=policy.default)
    assert sent["Subject"] == "Bonjour à tous"
    assert sent["Message-ID"] == "<digest_w_1@127.0.0.1>"


@pytest.mark.parametrize("url", ["http://mail.example.com", "smtp://", "smtp://host:port"])
def test_an_address_that_is_no_mail_server_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(SettingsError, match="notify_smtp_url"):
        MailTarget.of(settings_of(notify_smtp_url=url, notify_mail_to="ada@example.com"))
