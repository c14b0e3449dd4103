"""Persons, their roles, and the policy of a workspace that determines who may decide proposals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Self

from tools.base import Role

# The setting for who may decide a proposal: also the asker, only reviewers, or only reviewers other
# than the asker.
Deciders = Literal["asker", "reviewer", "four-eyes"]

# From the fewest to the most permissions. Each role includes those before it.
ROLE_ORDER: tuple[Role, ...] = ("viewer", "editor", "reviewer", "admin")

# Prefix of the user ids of callers on the telephone, who are not authenticated.
CALLER = "caller:"


# The channel through which a person uses the service.
Channel = Literal[
    "api", "page", "websocket", "cli", "mcp", "ag-ui", "openai", "voice", "automation"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientInfo:
    """The program that a person uses, and the id of the key or token that it signed in with.

    `name` and `version` are sent by the program and not verified.
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
    """A person, as identified by their token or the local command line.

    `client`: the program that they use; `name`: their display name. Both are ignored when persons
    are compared.
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
    """Determines who may decide proposals in a workspace.

    `asker_decides`: editors may decide the proposals of their own threads. `four_eyes`: nobody may
    decide their own proposals, whatever their role.
    """

    asker_decides: bool = True
    four_eyes: bool = False

    @classmethod
    def of(cls, deciders: Deciders) -> Self:
        """Returns the policy of a setting."""
        return cls(asker_decides=deciders == "asker", four_eyes=deciders == "four-eyes")

    def objection(self, by: Person, asker: str) -> str | None:
        """Returns the message code of the rule that forbids a person to decide, or None."""
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
