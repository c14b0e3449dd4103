"""Identifies the program through which a proposal came, and whether a person must decide it.

The page, the Nodius editor, the command line, telephone calls and automations are not programs in
this sense: they follow the rules of their own channels.
"""

from __future__ import annotations

from typing import Final

from graphrag.roles import ClientInfo

# Channels of programs that people write or configure themselves.
OUTSIDE: Final = frozenset({"api", "mcp", "ag-ui", "openai"})
# Those on which no person takes part: every proposal waits for a person, whatever the policies
# allow.
UNATTENDED: Final = frozenset({"mcp", "openai"})
# Prefix of the ids of API keys. Ids without it are of signed tokens, which last for one sign-in.
KEY_PREFIX: Final = "key_"


def program_of(client: ClientInfo | None) -> str | None:
    """Returns the id of a client's program, None for the service's own channels.

    The id is `key:ID` for an API key, else `CHANNEL/NAME` with the program's own name, which is not
    verified, else `CHANNEL`.
    """
    if client is None:
        return None
    if client.key_id and client.key_id.startswith(KEY_PREFIX):
        return f"key:{client.key_id}"
    if client.channel not in OUTSIDE:
        return None
    name = client.name.strip().casefold()
    return f"{client.channel}/{name}" if name else client.channel


def is_always_reviewed(client: ClientInfo | None) -> bool:
    """Returns whether a person must decide everything that the client proposes."""
    return client is not None and client.channel in UNATTENDED
