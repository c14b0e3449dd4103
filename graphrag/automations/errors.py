"""Errors of automations and their runs. Their texts are in the catalogues.

AutomationError
├── AutomationNotFound     no such automation in this workspace (id)
├── SessionNotFound        no such template or run in this workspace (id)
├── AutomationChanged      it was changed since it was read (id)
├── SessionRefused         the run's phase does not allow the request (id, phase, end reason or "-")
└── AutomationRefused      the request does not fit the automation's state; `code` is the reason
    ├── AutomationInvalid     a field is invalid
    ├── AutomationTooLong     the message is too long
    ├── AutomationForbidden   the person's role does not allow it
    └── AutomationsSpent      the maximum number of automations or runs is reached
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from graphrag.i18n import LocalizedError


class AutomationError(LocalizedError, fact_chars=500):
    """Base of the errors of automations."""


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
    "automation_model": "model",
}


class AutomationRefused(AutomationError):
    """Raised with the code of a text and its values. `field`: the field of a form that is invalid,
    or "".
    """

    def __init__(self, code: str, **facts: Any) -> None:
        super().__init__(**facts)
        self.code = code
        self.field = _FIELDS.get(code, "")


class AutomationInvalid(AutomationRefused): ...


class AutomationTooLong(AutomationRefused): ...


class AutomationForbidden(AutomationRefused): ...


class AutomationsSpent(AutomationRefused): ...
