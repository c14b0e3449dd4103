"""What the text of a model becomes, for tests that look at nothing else."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from graphrag.llm.base import (
    Chunk,
    Finished,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    TextWasThinking,
    ToolCall,
    ToolCallCut,
    ToolCallReady,
)
from graphrag.llm.model_text import ModelText


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """`text` is what a person sees in the end; `streamed` what was sent before, taken
    back or not.
    """

    text: str
    streamed: str
    thinking: str
    calls: list[ToolCall]
    cut: list[ToolCall]
    leaked: bool
    began_in_thinking: bool


def words_of(
    pieces: Iterable[str],
    tools: Collection[str] = (),
    *,
    holds_beginning: bool = False,
    finish: FinishReason = "stop",
) -> Words:
    """Return what the pieces of one answer become."""
    reader = ModelText(tools, holds_beginning=holds_beginning)
    chunks: list[Chunk] = []
    for piece in pieces:
        chunks += reader.feed(TextDelta(text=piece))
    chunks += reader.feed(Finished(reason=finish))
    chunks += reader.end()
    text, streamed, thinking = "", "", ""
    for chunk in chunks:
        match chunk:
            case TextDelta():
                text = text + chunk.text
                streamed = streamed + chunk.text
            case TextWasThinking():
                text, thinking = "", thinking + text
            case ReasoningDelta():
                thinking += chunk.text
            case _:
                pass
    return Words(
        text=text,
        streamed=streamed,
        thinking=thinking,
        calls=[chunk.call for chunk in chunks if isinstance(chunk, ToolCallReady)],
        cut=[chunk.call for chunk in chunks if isinstance(chunk, ToolCallCut)],
        leaked=reader.leaked,
        began_in_thinking=reader.began_in_thinking,
    )
