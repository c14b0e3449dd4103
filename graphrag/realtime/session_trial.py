"""Opens a trial session of a Realtime model to check the settings of an agent."""

from __future__ import annotations

import asyncio
from typing import Final

import orjson

from graphrag.agents.document import AgentDocument
from graphrag.agents.model_refusal import ModelRefusal, refusal_of
from graphrag.agents.session_fields import FetchedSession
from graphrag.realtime.model_side import ModelSide, RealtimeRefused, RealtimeUnreachable
from graphrag.realtime.session_settings import SessionSettings

TRIAL_S: Final = 5.0  # for the connection and the answer


class NotTried(Exception):
    """Raised when the model's service cannot be reached. `why` is the reason."""

    def __init__(self, *, why: str) -> None:
        super().__init__(why)
        self.why = why


def trial_session(document: AgentDocument, language: str) -> SessionSettings:
    """Returns the settings from the document alone. Templates are not filled in."""
    session = document.session
    inline = None if isinstance(session, FetchedSession) else session
    declared = [] if inline is None else [tool.model_dump(mode="json") for tool in inline.tools]
    return SessionSettings(
        model=document.openai,
        options=document.voice,
        instructions="-" if inline is None else inline.instructions.source,
        language=document.agent.language or language,
        tools=declared,
    )


async def try_session(side: ModelSide, session: SessionSettings) -> ModelRefusal | None:
    """Opens and closes a session with its settings. No response is requested, so it is free.

    Returns the refusal of the service, None if it accepts the settings. Raises: NotTried.
    """
    try:
        async with asyncio.timeout(TRIAL_S):
            await side.open()
            async for event in side.events():
                match event["type"]:
                    case "session.created":
                        update = {"type": "session.update", "session": session.update()}
                        await side.send(orjson.dumps(update).decode("utf-8"))
                    case "session.updated":
                        return None
                    case "error":
                        return refusal_of(event.get("error"))
                    case _:
                        pass
    except RealtimeRefused as exc:
        return exc.refusal or refusal_of({"message": exc.why}, code="refused")
    except RealtimeUnreachable as exc:
        raise NotTried(why=exc.why) from exc
    except TimeoutError as exc:
        raise NotTried(why=f"no answer within {TRIAL_S:g} s") from exc
    finally:
        await side.close()
    raise NotTried(why="the connection was lost")
