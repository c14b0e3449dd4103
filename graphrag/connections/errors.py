"""Errors of connections; the catalogues hold their sentences.

WorkflowServerError
├── ConnectionNotFound   no connection of this name in the workspace (name)
├── WorkflowNotLinked    the connection has not read a workflow of this id (name, workflow)
├── ConnectionExists     the name is taken (name)
├── ConnectionForbidden  the person's role does not allow it
├── ConnectionBusy       another process synchronises it at this moment (name)
├── ConnectionRefused    it cannot be made or used as it is; `code` names the sentence
├── PushNotFound         no push of this id in the workspace (push_id)
├── PushDecided          it was decided already (push_id, state)
└── EditorFault          the server did not give what was asked; `code` names the sentence
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from graphrag.i18n import LocalizedError

FaultCode = Literal[
    "editor_unreachable",
    "editor_timed_out",
    "editor_certificate",
    "editor_redirects",
    "editor_private",
    "editor_sign_in_page",
    "editor_not_there",
    "editor_key_refused",
    "editor_right_missing",
    "editor_locked_out",
    "editor_needs_browser",
    "editor_needs_key",
    "editor_too_large",
    "editor_unreadable",
    "editor_status",
    "editor_no_drafts",
]


_FIELDS: Mapping[str, str] = {
    "ConnectionExists": "name",
    "connection_name": "name",
    "connection_variable": "key",
    "connection_variable_empty": "key",
    "connection_secret_missing": "key",
    "connection_patterns": "workflows",
    "connection_interval": "intervalS",
    "editor_private": "allowPrivate",
    "editor_key_refused": "key",
    "editor_locked_out": "key",
    "editor_needs_browser": "key",
    "editor_needs_key": "key",
    "editor_right_missing": "key",
    **dict.fromkeys(
        (
            "connection_address",
            "editor_unreachable",
            "editor_timed_out",
            "editor_certificate",
            "editor_redirects",
            "editor_sign_in_page",
            "editor_not_there",
            "editor_status",
            "editor_unreadable",
        ),
        "address",
    ),
}


class WorkflowServerError(LocalizedError, fact_chars=500):
    """Base of the errors that connections raise on purpose."""

    @property
    def field(self) -> str:
        """The field of a new connection that has to be corrected, "" where it is none of them."""
        return _FIELDS.get(self.code, "")


class ConnectionNotFound(WorkflowServerError): ...


class WorkflowNotLinked(WorkflowServerError): ...


class ConnectionExists(WorkflowServerError): ...


class ConnectionForbidden(WorkflowServerError): ...


class ConnectionBusy(WorkflowServerError): ...


class ConnectionRefused(WorkflowServerError):
    """Raised with the code of a sentence and its facts."""

    def __init__(self, code: str, **facts: Any) -> None:
        super().__init__(**facts)
        self.code = code


class PushNotFound(WorkflowServerError): ...


class PushDecided(WorkflowServerError): ...


class EditorFault(WorkflowServerError):
    """Raised where a server cannot be used, with the code of a sentence and its facts.

    No fact and no message holds a key or a text that the server answered.
    """

    def __init__(self, code: FaultCode, **facts: Any) -> None:
        super().__init__(**facts)
        self.code: FaultCode = code

    @property
    def is_about_key(self) -> bool:
        """True where a second try with the same key could lock its owner out."""
        return self.code in ("editor_key_refused", "editor_locked_out")


class EditorUnreachable(EditorFault): ...
