"""Sends mail over SMTP to the addresses of the settings. Each message is stored first, then sent
until the server accepts it, for a day, by any server of the service.
"""

from __future__ import annotations

import asyncio
import logging
import smtplib
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.message import EmailMessage
from functools import partial
from typing import Any, Final, final
from urllib.parse import unquote, urlsplit

from datasources.base import Record, RecordStore
from datasources.errors import RecordConflict
from graphrag.config import Settings, SettingsError
from graphrag.delivery_queue import DeliveryQueue
from graphrag.leases import now_ms
from graphrag.workers import repeat

log = logging.getLogger(__name__)

KIND: Final = "mail"
LOOK_S: Final = 5.0
# For each step of a connection; all of them stay below the time for which a message is claimed.
TIMEOUT_S: Final = 6.0
PORTS: Final = {"smtp": 587, "smtps": 465}


@dataclass(frozen=True, slots=True, kw_only=True)
class MailTarget:
    """An SMTP server and the addresses of a message. `is_tls`: encrypted from the start; otherwise
    the connection is encrypted by STARTTLS if the server offers it.
    """

    host: str
    port: int
    is_tls: bool
    user: str | None
    password: str | None
    sender: str
    recipients: tuple[str, ...]

    @classmethod
    def of(cls, settings: Settings) -> MailTarget | None:
        """Returns the target of the settings, or None without one. Raises: SettingsError."""
        notify = settings.notify
        if notify.smtp_url is None or not notify.mail_to:
            return None
        url = urlsplit(notify.smtp_url.get_secret_value())
        try:
            port = url.port or PORTS[url.scheme]
        except (KeyError, ValueError):
            reason = "write it as smtp://USER:PASSWORD@HOST:587 or smtps://HOST"
            raise SettingsError(name="notify_smtp_url", origin="settings", reason=reason) from None
        if not url.hostname:
            raise SettingsError(
                name="notify_smtp_url", origin="settings", reason="it names no host"
            )
        return cls(
            host=url.hostname,
            port=port,
            is_tls=url.scheme == "smtps",
            user=unquote(url.username) if url.username else None,
            password=unquote(url.password) if url.password else None,
            sender=notify.mail_from or f"nodius@{url.hostname}",
            recipients=notify.mail_to,
        )


@final
class Mailer:
    """Stores messages and sends them in the background. Does nothing without a target.

    `records`: of the root workspace. `clock`: milliseconds since 1970.
    """

    def __init__(
        self,
        target: MailTarget | None,
        records: RecordStore,
        *,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._target = target
        self._queue = DeliveryQueue(records, KIND, since="createdTime", clock=clock)

    @property
    def is_enabled(self) -> bool:
        return self._target is not None

    def start(self) -> None:
        """Begins to send due messages, also those that other servers left."""
        if self._target is not None:
            self._queue.begin("look", partial(repeat, self.send_due, LOOK_S, log, "mail_failed"))

    async def send(self, key: str, subject: str, text: str) -> None:
        """Stores a message, unless one with this key is stored. Raises: SourceError."""
        if self._target is None:
            return
        with suppress(RecordConflict):
            await self._queue.add(key, {"subject": subject, "text": text})

    async def send_due(self) -> int:
        """Sends due messages and removes old ones. Returns the number of due ones. Raises:
        SourceError.
        """
        return await self._queue.send_due(self._try)

    async def _try(self, records: Sequence[Record]) -> None:
        for record in records:
            await self._queue.attempt(record, partial(self._outcome, record))

    async def _outcome(self, record: Record) -> dict[str, Any]:
        assert self._target is not None, "nothing is tried without a target"
        message = _message(self._target, record)
        try:
            await asyncio.to_thread(_deliver, self._target, message)
        except (smtplib.SMTPException, OSError) as exc:
            log.warning("mail_not_sent", extra={"error": type(exc).__name__})
            return {"error": type(exc).__name__}
        return {"status": "done", "error": None}

    async def aclose(self) -> None:
        """Leaves what is being sent; it is found again when it is due."""
        await self._queue.close()


def _message(target: MailTarget, record: Record) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = record.data["subject"]
    message["From"] = target.sender
    message["To"] = ", ".join(target.recipients)
    # The same at each attempt, so that a mail program shows a repeated message once.
    message["Message-ID"] = f"<{record.key}@{target.host}>"
    message.set_content(record.data["text"])
    return message


def _deliver(target: MailTarget, message: EmailMessage) -> None:
    """Sends one message. Raises: SMTPException, OSError."""
    context = ssl.create_default_context()
    if target.is_tls:
        server = smtplib.SMTP_SSL(target.host, target.port, timeout=TIMEOUT_S, context=context)
    else:
        server = smtplib.SMTP(target.host, target.port, timeout=TIMEOUT_S)
    with server:
        server.ehlo()
        if not target.is_tls and server.has_extn("starttls"):
            server.starttls(context=context)
            server.ehlo()
        if target.user is not None:
            server.login(target.user, target.password or "")
        server.send_message(message)
