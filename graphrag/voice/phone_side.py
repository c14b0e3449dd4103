"""The phone side of a call, as the server or a test gives it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol


class PhoneSide(Protocol):
    """A stream towards a caller, in the protocol of Media Streams; see `media_messages`."""

    def messages(self) -> AsyncIterator[str]:
        """Yield the text frames that come after `start`, until the stream is closed; one that is no text
        comes as ""."""
        ...

    async def send(self, text: str) -> None:
        """Send a text frame. Raises: anything, once the stream is gone."""
        ...

    async def close(self, code: int = 1000) -> None:
        """Close the stream; never raises."""
        ...
