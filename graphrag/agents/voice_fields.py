"""The fields of an agent document about sound: the voice model, the phone call, transfers.

From outside: `VoiceModel`, `VoiceOptions`, `VoiceEngine`; `Name` for the other fields.
"""

from __future__ import annotations

from typing import Annotated, Literal, final

from pydantic import BeforeValidator, Field

from tools.http.model import DocumentPart, Whole, described, whole

Voice = Literal[
    "alloy", "ash", "ballad", "coral", "echo", "sage", "shimmer", "verse", "marin", "cedar"
]


TokenCount = Annotated[int, Field(ge=1, le=4096), BeforeValidator(whole)]
Name = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]
"""The name of a tool or of a destination."""
AudioFormat = Literal["g711_ulaw", "audio/pcmu"]
Text40 = Annotated[str, Field(min_length=1, max_length=40)]
Text100 = Annotated[str, Field(min_length=1, max_length=100)]
LanguageCode = Annotated[str, Field(pattern="^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$")]
"""A code as BCP-47 has them."""
SaidText = Annotated[str, Field(min_length=1, max_length=300)]


@final
class CustomVoice(DocumentPart):
    """A voice of one's own, by the id that the vendor gave it."""

    id: Text100 = described("Id of the voice.")


@final
class VoiceDetection(DocumentPart):
    """How the model's server finds out that the caller speaks and has finished."""

    type: Literal["server_vad", "semantic_vad"] = described(
        "By loudness and pauses (server_vad) or by the sense of the words (semantic_vad).",
        "server_vad",
    )
    threshold: float = described("How loud speech must be; server_vad only.", 0.5, ge=0, le=1)
    prefix_padding_ms: Whole = described(
        "Milliseconds kept from before the speech; server_vad only.", 300, ge=0, le=5000
    )
    silence_duration_ms: Whole = described(
        "Milliseconds of silence that end a turn; server_vad only.", 500, ge=100, le=5000
    )
    eagerness: Literal["low", "medium", "high", "auto"] = described(
        "How soon the model answers; semantic_vad only.", "auto"
    )


@final
class Transcription(DocumentPart):
    """Who writes down what the caller says."""

    model: Text100 = described("Model that transcribes the caller.", "gpt-transcribe")
    language: str | None = described(
        "Language of the caller, ISO 639-1; without it the first part of `agent.language`.",
        None,
        pattern="^[a-z]{2,3}$",
    )
    prompt: str | None = described("Words that are likely to be said.", None, max_length=1000)
    graph_names: bool = described(
        "The transcriber also gets names of the agent's graphs and their nodes, at most 40.", False
    )


@final
class VoiceModel(DocumentPart):
    """The model of phone calls and how it is set."""

    model: Text100 = described("Realtime model of a call.", "gpt-realtime-2.1")
    voice: Voice | CustomVoice = described(
        'A voice by its name, or one of your own as `{"id": …}`.', "marin"
    )
    speed: float = described("How fast it speaks.", 1.0, ge=0.25, le=1.5)
    temperature: float | None = described(
        "Accepted and not used: Realtime sessions have no temperature.", None, ge=0, le=2
    )
    vad: VoiceDetection = described(
        "When the caller's turn begins and ends.", default_factory=VoiceDetection
    )
    input_audio_format: AudioFormat = described("Sound from the caller.", "g711_ulaw")
    output_audio_format: AudioFormat = described("Sound to the caller.", "g711_ulaw")
    input_audio_transcription: Transcription = described(
        "Who transcribes the caller.", default_factory=Transcription
    )
    noise_reduction: Literal["near_field", "far_field"] | None = described(
        "For a telephone (near_field), a room (far_field), or none (null).", "near_field"
    )
    max_output_tokens: TokenCount | Literal["inf"] = described(
        'Tokens of one answer at most, or "inf".', 1024
    )
    reasoning_effort: Literal["minimal", "low", "medium", "high", "xhigh"] | None = described(
        "How long a reasoning model thinks.", None
    )


@final
class BargeIn(DocumentPart):
    """What happens when the caller speaks while the agent speaks."""

    mode: Literal["immediate", "confirmed", "off"] = described(
        "The agent stops at once, after `min_speech_ms` of speech (confirmed), or never (off).",
        "immediate",
    )
    min_speech_ms: Whole = described(
        "Confirmed: milliseconds of speech that stop the agent.", 300, ge=0, le=2000
    )
    guard_ms: Whole = described(
        "Milliseconds after the agent began to speak in which speech is taken for its echo.",
        0,
        ge=0,
        le=2000,
    )


@final
class Destination(DocumentPart):
    """Somebody a call can be transferred to."""

    number: str = described(
        "Number as +33612345678, or a `sip:` address.",
        pattern=r"^(\+[1-9][0-9]{6,14}|sip:[^\s@]{1,100}@[^\s@]{1,150})$",
    )
    description: str = described("Who answers there, for the model.", "", max_length=500)
    timeout_s: Whole = described("Seconds that it may ring.", 30, ge=5, le=600)
    attempts: Whole = described("How often it is called until somebody answers.", 1, ge=1, le=3)
    fallback: Name | None = described("Destination that is tried where nobody answers.", None)
    summary: Literal["none", "spoken", "posted"] = described(
        "The summary of the call: read to the person who answers before they are connected (spoken), or sent "
        "by `lifecycle.on_transfer` (posted).",
        "none",
    )
    on_unanswered: Literal["hangup", "agent", "message"] | None = described(
        "What happens where neither this destination nor its fallbacks answer: the call ends (hangup), the "
        "agent goes on (agent) or takes a message (message). Without it `voice.fallback` is called, then the "
        "call ends.",
        None,
    )


VoiceEngine = Literal["realtime", "text"]


@final
class SpeechOptions(DocumentPart):
    """How the telephone's own speech service recognises and speaks; engine `text` only."""

    welcome: SaidText | None = described(
        "Said word for word as soon as the call is answered; without it the model greets as "
        "`greeting` says.",
        None,
    )
    language: LanguageCode | None = described(
        "Language that is recognised and spoken; without it `agent.language` with its usual "
        "region.",
        None,
    )
    tts_provider: Text40 | None = described(
        "Twilio's name of the service that speaks, as ElevenLabs, Google or Amazon.", None
    )
    voice: Text100 | None = described("That service's name of the voice.", None)
    transcription_provider: Text40 | None = described(
        "Twilio's name of the service that recognises, as Deepgram or Google.", None
    )
    speech_model: Text100 | None = described("That service's model of recognition.", None)
    hints: list[Annotated[str, Field(min_length=1, max_length=100, pattern="^[^,]+$")]] = described(
        "Names and terms that callers are likely to say.", [], max_length=100
    )


@final
class RecordingOptions(DocumentPart):
    """The recording of a call that the telephone service makes and keeps."""

    enabled: bool = described(
        "The telephone service records the agent's part of a call, after the notice.", False
    )
    notice: SaidText | None = described(
        "Said before the call is recorded; required for `enabled`.", None
    )


@final
class VoiceOptions(DocumentPart):
    """How a call sounds and ends."""

    engine: VoiceEngine = described(
        "What answers calls: a Realtime speech model (realtime), or the model of chats, while the "
        "telephone service recognises and speaks (text).",
        "realtime",
    )
    speech: SpeechOptions = described(
        "The telephone's speech service; engine text only.", default_factory=SpeechOptions
    )
    barge_in: BargeIn = described(
        "What the caller's speech does to the agent's.", default_factory=BargeIn
    )
    delayed_after_s: float = described(
        "Seconds until the caller is asked to wait for a slow tool.", 2, ge=0.5, le=10
    )
    silence_s: float = described("Seconds of silence before the caller is asked.", 20, ge=5, le=120)
    silence_prompts: Whole = described(
        "How often a silent caller is asked before the end.", 2, ge=0, le=3
    )
    unavailable_message: SaidText | None = described(
        "Said when the model cannot be reached; without it a sentence in the agent's language.",
        None,
    )
    goodbye_message: SaidText | None = described(
        "Said when we must end the call; without it a sentence in the agent's language.", None
    )
    say_voice: Text100 | None = described("Twilio's voice for these sentences.", None)
    say_language: LanguageCode | None = described(
        "Their language; without it `agent.language` with its usual region.", None
    )
    destinations: dict[Name, Destination] = described(
        "Whom a call can be transferred to, by name.",
        default_factory=dict[Name, Destination],
        max_length=50,
    )
    fallback: Name | None = described(
        "Destination of callers whom the agent cannot serve for a reason that is ours, and of transfers that "
        "nobody answers.",
        None,
    )
    no_answer_message: SaidText | None = described(
        "Said when nobody answers a transfer; without it a sentence in the agent's language.", None
    )
    recording: RecordingOptions = described(
        "Whether the telephone service records calls.", default_factory=RecordingOptions
    )
    dtmf: bool = described("Digits of the keypad reach the model.", True)
    wrap_up_s: float = described(
        "Seconds before `limits.max_call_s` at which the model is asked to end.", 30, ge=5, le=120
    )
