"""Warnings about fields of an agent document that do nothing with the engine of its calls."""

from __future__ import annotations

from collections.abc import Iterator

from graphrag.agents.document import AgentDocument
from graphrag.agents.voice_fields import BargeIn
from graphrag.agents.world import problem
from tools.http.problems import DocumentProblem

_SOUND = "with voice.engine text the telephone's speech service hears and speaks"


def ignored_by_engine(document: AgentDocument) -> Iterator[DocumentProblem]:
    """Yields a warning for each given field that only the other engine reads."""
    voice = document.voice
    if voice.engine == "realtime":
        if "speech" in voice.model_fields_set and voice.speech.model_fields_set:
            what = "voice.speech is read with voice.engine text alone"
            yield problem("voice.speech", "ignored_field", what, 'voice.engine: "text"')
        return
    if "voice" not in document.channels:
        what = "nobody calls this agent: channels does not name voice"
        yield problem("voice.engine", "ignored_field", what, '"voice" in channels')
    for name in sorted(document.openai.model_fields_set):
        what = f"{_SOUND}: this setting of a Realtime model is not used"
        yield problem(f"openai.{name}", "ignored_field", what, "chat, voice.speech")
    yield from _barge_in(voice.barge_in)


def _barge_in(barge_in: BargeIn) -> Iterator[DocumentProblem]:
    if barge_in.mode == "confirmed":
        what = f"{_SOUND}, which knows no confirmed interruption: the agent stops at once"
        yield problem("voice.barge_in.mode", "ignored_field", what, '"immediate", "off"')
    for name in sorted({"min_speech_ms", "guard_ms"} & barge_in.model_fields_set):
        what = f"{_SOUND}: {name} is not used"
        yield problem(f"voice.barge_in.{name}", "ignored_field", what, None)
