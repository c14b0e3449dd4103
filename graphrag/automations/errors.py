"""Why an automation or one of its runs cannot be used as asked; their sentences
stand in the catalogues.

AutomationError ├── AutomationNotFound   no such automation in this workspace (id) ├──
SessionNotFound      no such template or run in this workspace (id) ├── AutomationChanged
somebody else changed it since it was read (id) ├── SessionRefused       the session is past what
was asked of it (id, phase, end: why it ended, or "-") └── AutomationRefused    what is asked of it
does not fit how it stands; `code` says why
    ├── AutomationInvalid     a field of it cannot be used
    ├── AutomationTooLong     its message is too long
    ├── AutomationForbidden   the person's role does not allow it
    └── AutomationsSpent      a limit of how many there may be, or of how many runs, is reached
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from graphrag.i18n import LocalizedError


class AutomationError(LocalizedError, fact_chars=500):
    """Base of what automations raise on purpose."""


class AutomationNotFound(AutomationError): ...


class SessionNotFound(AutomationError): ...


class AutomationChanged(AutomationError): ...


class SessionRefused(AutomationError): ...


_FIELDS: Final[Mapping[str, str]] = {
    "automation_name_length": "name",
    "automation_name_taken": "name",
    "automation_message_empty": "message",
    "automation_message_long": "message",
    "automation_cost_unpriced": "budget.costUsd",
}


class AutomationRefused(AutomationError):
    """Raised with the code of a text and what it names. `field`: what of a form is to be
    changed, or "".
    """

    def __init__(self, code: str, **facts: Any) -> None:
        super().__init__(**facts)
        self.code = code
        self.field = _FIELDS.get(code, "")


class AutomationInvalid(AutomationRefused): ...


class AutomationTooLong(AutomationRefused): ...


class AutomationForbidden(AutomationRefused): ...


class AutomationsSpent(AutomationRefused): ...
