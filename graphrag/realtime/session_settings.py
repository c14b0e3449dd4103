"""The settings of a call, from the agent document and the fetched session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from graphrag.agents.document import ConversationLimits
from graphrag.agents.realtime_models import TAKE_KEYWORDS, TAKE_NO_PROMPT
from graphrag.agents.voice_fields import Transcription, VoiceModel, VoiceOptions
from graphrag.i18n import Language, text


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """The settings of one call.

    `tools`: declarations for the model. `delayed`: texts spoken while a slow tool runs, by its
    name. `texts`: language of the service's own instructions to the model. `names`:
    that the caller is likely to say, for the transcriber. `earlier`: utterances
    before this stream as (role, words), and `note`: what the model is told instead of a greeting;
    of a caller who comes back after a transfer.
    """

    model: VoiceModel
    options: VoiceOptions
    instructions: str
    language: str = "en"
    tools: Sequence[Mapping[str, Any]] = ()
    delayed: Mapping[str, str] = field(default_factory=dict[str, str])
    greeting: str | None = None
    greeting_is_interruptible: bool = True
    limits: ConversationLimits = field(default_factory=ConversationLimits)
    texts: Language = "en"
    names: Sequence[str] = ()
    earlier: Sequence[tuple[str, str]] = ()
    note: str | None = None

    def text(self, name: str, **facts: Any) -> str:
        """Returns an instruction to the model, in the language `texts`."""
        return text(name, self.texts, **facts)

    @property
    def server_interrupts(self) -> bool:
        """Whether the server cancels its response when the caller speaks; otherwise we do."""
        barge_in = self.options.barge_in
        return (
            barge_in.mode == "immediate"
            and not barge_in.guard_ms
            and self.greeting_is_interruptible
        )

    @property
    def server_asks_silent(self) -> bool:
        """Whether the server notices a silent caller; otherwise our own timer does."""
        takes = self.options.silence_prompts >= 1 and self.options.silence_s <= 30
        is_realtime = self.options.engine == "realtime"
        return is_realtime and self.model.vad.type == "server_vad" and takes

    def update(self, *, transcribes: bool = True) -> dict[str, Any]:
        """Returns the session for `session.update`, with or without transcription."""
        model = self.model
        session: dict[str, Any] = {
            "type": "realtime",
            "output_modalities": ["audio"],
            "instructions": self.instructions,
            "tools": [dict(tool) for tool in self.tools],
            "tool_choice": "auto",
            "max_output_tokens": model.max_output_tokens,
            "truncation": "auto",
            "audio": {"input": self._input(transcribes=transcribes), "output": self._output()},
        }
        if model.reasoning_effort is not None:
            session["reasoning"] = {"effort": model.reasoning_effort}
        return session

    def _input(self, *, transcribes: bool) -> dict[str, Any]:
        model = self.model
        written = model.input_audio_transcription
        heard: dict[str, Any] = {
            "model": written.model,
            "language": written.language or self.language.partition("-")[0].lower(),
        }
        heard |= self._expected(written)
        noise = None if model.noise_reduction is None else {"type": model.noise_reduction}
        return {
            "format": {"type": "audio/pcmu"},
            **({"transcription": heard} if transcribes else {}),
            "noise_reduction": noise,
            "turn_detection": self._turns(),
        }

    def _expected(self, written: Transcription) -> dict[str, Any]:
        """Returns what the transcriber is told of the words to come, in the form that it takes."""
        words = [written.prompt] if written.prompt else []
        if not self.names or written.model in TAKE_NO_PROMPT:
            return {"prompt": words[0]} if words else {}
        if written.model in TAKE_KEYWORDS:
            return {"keywords": list(self.names), **({"prompt": words[0]} if words else {})}
        return {"prompt": "\n".join([*words, ", ".join(self.names)])}

    def _turns(self) -> dict[str, Any]:
        vad = self.model.vad
        both = {"create_response": True, "interrupt_response": self.server_interrupts}
        if vad.type == "semantic_vad":
            return vad.model_dump(include={"type", "eagerness"}) | both
        idle_ms = round(self.options.silence_s * 1000) if self.server_asks_silent else None
        return vad.model_dump(exclude={"eagerness"}) | {"idle_timeout_ms": idle_ms, **both}

    def _output(self) -> dict[str, Any]:
        voice = self.model.voice
        return {
            "format": {"type": "audio/pcmu"},
            "voice": voice if isinstance(voice, str) else {"id": voice.id},
            "speed": self.model.speed,
        }
