"""The people who ask and decide: who somebody is, and what a workspace lets whom decide."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Self

from tools.base import Role

Deciders = Literal["asker", "reviewer", "four-eyes"]
"""Who decides, as it is configured: also the asker, only reviewers, or a reviewer who
did not ask.
"""

ROLE_ORDER: tuple[Role, ...] = ("viewer", "editor", "reviewer", "admin")
"""From least to most: each may do what those before it may."""

CALLER = "caller:"
"""Begins the user id of who is on the telephone: nobody has identified them."""


Channel = Literal[
    "api", "page", "websocket", "cli", "mcp", "ag-ui", "openai", "voice", "automation"
]
"""The way by which somebody reaches the service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientInfo:
    """The program that somebody acts through, as it names itself, and the id of the key or token it
    signed in with. Nobody has checked the name.
    """

    channel: Channel
    name: str = ""
    version: str = ""
    key_id: str | None = None

    def to_document(self) -> dict[str, str]:
        parts = {
            "channel": self.channel,
            "name": self.name,
            "version": self.version,
            "keyId": self.key_id,
        }
        return {name: value for name, value in parts.items() if value}


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody as their token, or the local command line, makes them known.

    `client`: the program they act through, `name`: what they are called; who they are
    depends on neither.
    """

    user_id: str
    role: Role
    workspace: str
    client: ClientInfo | None = field(default=None, compare=False)
    name: str = field(default="", compare=False)

    def at_least(self, role: Role) -> bool:
        return ROLE_ORDER.index(self.role) >= ROLE_ORDER.index(role)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Who decides in a workspace.

    `asker_decides`: an editor decides what was proposed to them in their own threads.
    `four_eyes`: nobody decides what they asked for themselves, whatever their role.
    """

    asker_decides: bool = True
    four_eyes: bool = False

    @classmethod
    def of(cls, deciders: Deciders) -> Self:
        """Return the policy that a setting names."""
        return cls(asker_decides=deciders == "asker", four_eyes=deciders == "four-eyes")

    def objection(self, by: Person, asker: str) -> str | None:
        """Return the message code of what forbids a person to decide, or None."""
        if by.user_id.startswith(CALLER):
            return "callers_decide_nothing"
        if not by.at_least("editor"):
            return "deciding_needs_editor"
        if by.user_id == asker:
            if self.four_eyes:
                return "four_eyes"
            return (
                None if self.asker_decides or by.at_least("reviewer") else "deciding_needs_reviewer"
            )
        return None if by.at_least("reviewer") else "deciding_needs_reviewer"
