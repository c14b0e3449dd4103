"""Keys of what an action creates, and what the action's own names for new nodes become."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable

from tools.proposals import (
    BatchAction,
    CreateNodeAction,
    CreateNodeWithEdgesAction,
    SingleAction,
    single_actions,
)

Ids = Callable[[], str]

_OWN = re.compile(r"ai_[0-9]+_[0-9a-z]{4,40}")


def new_id() -> str:
    """Return `ai_{milliseconds}_{random}`: 48 random bits keep keys of one millisecond apart."""
    return f"ai_{time.time_ns() // 1_000_000}_{secrets.token_hex(6)}"


def is_own(key: str | None) -> bool:
    """Say whether a key was given by us: such a key stays, any other is an action's own name."""
    return key is not None and _OWN.fullmatch(key) is not None


class KeyMap:
    """Gives each new node and edge its key; an action's own name always means the same node."""

    def __init__(self, action: SingleAction | BatchAction, ids: Ids) -> None:
        self._ids = ids
        self._keys: dict[str, str] = {}
        for _, single in single_actions(action):
            if isinstance(single, CreateNodeAction | CreateNodeWithEdgesAction) and single.payload.key:
                key = single.payload.key
                self._keys.setdefault(key, self.fresh(key))

    def fresh(self, key: str | None = None) -> str:
        """Return a key for something new: its own where it has one, else another each time."""
        return key if key is not None and is_own(key) else self._ids()

    def node(self, key: str) -> str:
        """Return the key of a node that an action names, new or not."""
        return self._keys.get(key, key)
