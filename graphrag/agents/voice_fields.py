"""The fields of an agent document about sound: the voice model, the phone call, transfers.

From outside: `VoiceModel`, `VoiceOptions`, `VOICES`; `Name` for the other fields.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field

from tools.http.model import DocumentPart, Whole, whole

Voice = Literal["alloy", "ash", "ballad", "coral", "echo", "sage", "shimmer", "verse", "marin", "cedar"]
VOICES: tuple[str, ...] = get_args(Voice)


TokenCount = Annotated[int, Field(ge=1, le=4096), BeforeValidator(whole)]
Name = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]
"""The name of a tool or of a destination."""
AudioFormat = Literal["g711_ulaw", "audio/pcmu"]
SaidText = Annotated[str, Field(min_length=1, max_length=300)]


class CustomVoice(DocumentPart):
    """A voice of one's own, by the id that the vendor gave it."""

    id: str = Field(min_length=1, max_length=100, description="Id of the voice.", examples=["voice_1234"])


class VoiceDetection(DocumentPart):
    """How the model's server finds out that the caller speaks and has finished."""

    type: Literal["server_vad", "semantic_vad"] = Field(
        default="server_vad",
        description="By loudness and pauses (server_vad) or by the sense of the words (semantic_vad).",
        examples=["semantic_vad"],
    )
    threshold: float = Field(
        default=0.5, ge=0, le=1, description="How loud speech must be; server_vad only.", examples=[0.6]
    )
    prefix_padding_ms: Whole = Field(
        default=300,
        ge=0,
        le=5000,
        description="Milliseconds kept from before the speech; server_vad only.",
        examples=[300],
    )
    silence_duration_ms: Whole = Field(
        default=500,
        ge=100,
        le=5000,
        description="Milliseconds of silence that end a turn; server_vad only.",
        examples=[700],
    )
    eagerness: Literal["low", "medium", "high", "auto"] = Field(
        default="auto",
        description="How soon the model answers; semantic_vad only.",
        examples=["low"],
    )


class Transcription(DocumentPart):
    """Who writes down what the caller says."""

    model: str = Field(
        default="gpt-transcribe",
        min_length=1,
        max_length=100,
        description="Model that transcribes the caller.",
        examples=["gpt-transcribe"],
    )
    language: str | None = Field(
        default=None,
        pattern="^[a-z]{2,3}$",
        description="Language of the caller, ISO 639-1; without it the first part of `agent.language`.",
        examples=["fr"],
    )
    prompt: str | None = Field(
        default=None,
        max_length=1000,
        description="Words that are likely to be said.",
        examples=["Pizza Bella"],
    )


class VoiceModel(DocumentPart):
    """The model of phone calls and how it is set."""

    model: str = Field(
        default="gpt-realtime-2.1",
        min_length=1,
        max_length=100,
        description="Realtime model of a call.",
        examples=["gpt-realtime-2.1"],
    )
    voice: Voice | CustomVoice = Field(
        default="marin",
        description='A voice by its name, or one of your own as `{"id": …}`.',
        examples=["cedar"],
    )
    speed: float = Field(default=1.0, ge=0.25, le=1.5, description="How fast it speaks.", examples=[1.1])
    temperature: float | None = Field(
        default=None,
        ge=0,
        le=2,
        description="Accepted and not used: Realtime sessions have no temperature.",
        examples=[0.7],
    )
    vad: VoiceDetection = Field(
        default_factory=VoiceDetection,
        description="When the caller's turn begins and ends.",
        examples=[{"silence_duration_ms": 700}],
    )
    input_audio_format: AudioFormat = Field(
        default="g711_ulaw", description="Sound from the caller.", examples=["audio/pcmu"]
    )
    output_audio_format: AudioFormat = Field(
        default="g711_ulaw", description="Sound to the caller.", examples=["audio/pcmu"]
    )
    input_audio_transcription: Transcription = Field(
        default_factory=Transcription,
        description="Who transcribes the caller.",
        examples=[{"model": "gpt-transcribe", "language": "fr"}],
    )
    noise_reduction: Literal["near_field", "far_field"] | None = Field(
        default="near_field",
        description="For a telephone (near_field), a room (far_field), or none (null).",
        examples=["far_field"],
    )
    max_output_tokens: TokenCount | Literal["inf"] = Field(
        default=1024, description='Tokens of one answer at most, or "inf".', examples=[2048]
    )
    reasoning_effort: Literal["minimal", "low", "medium", "high", "xhigh"] | None = Field(
        default=None, description="How long a reasoning model thinks.", examples=["low"]
    )


class BargeIn(DocumentPart):
    """What happens when the caller speaks while the agent speaks."""

    mode: Literal["immediate", "confirmed", "off"] = Field(
        default="immediate",
        description="The agent stops at once, after `min_speech_ms` of speech (confirmed), or never (off).",
        examples=["confirmed"],
    )
    min_speech_ms: Whole = Field(
        default=300,
        ge=0,
        le=2000,
        description="Confirmed: milliseconds of speech that stop the agent.",
        examples=[400],
    )
    guard_ms: Whole = Field(
        default=0,
        ge=0,
        le=2000,
        description="Milliseconds after the agent began to speak in which speech is taken for its echo.",
        examples=[200],
    )


class Destination(DocumentPart):
    """Somebody a call can be transferred to."""

    number: str = Field(
        pattern=r"^(\+[1-9][0-9]{6,14}|sip:[^\s@]{1,100}@[^\s@]{1,150})$",
        description="Number as +33612345678, or a `sip:` address.",
        examples=["+33123456789"],
    )
    description: str = Field(
        default="",
        max_length=500,
        description="Who answers there, for the model.",
        examples=["Sales, 9 to 5"],
    )


class VoiceOptions(DocumentPart):
    """How a call sounds and ends."""

    barge_in: BargeIn = Field(
        default_factory=BargeIn,
        description="What the caller's speech does to the agent's.",
        examples=[{"mode": "confirmed"}],
    )
    delayed_after_s: float = Field(
        default=2,
        ge=0.5,
        le=10,
        description="Seconds until the caller is asked to wait for a slow tool.",
        examples=[3],
    )
    silence_s: float = Field(
        default=20, ge=5, le=120, description="Seconds of silence before the caller is asked.", examples=[15]
    )
    silence_prompts: Whole = Field(
        default=2, ge=0, le=3, description="How often a silent caller is asked before the end.", examples=[1]
    )
    unavailable_message: SaidText | None = Field(
        default=None,
        description="Said when the model cannot be reached; without it a sentence in the agent's language.",
        examples=["We cannot answer just now. Please call again later."],
    )
    goodbye_message: SaidText | None = Field(
        default=None,
        description="Said when we must end the call; without it a sentence in the agent's language.",
        examples=["Thank you for your call. Goodbye."],
    )
    say_voice: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="Twilio's voice for these sentences.",
        examples=["Polly.Lea-Neural"],
    )
    say_language: str | None = Field(
        default=None,
        pattern="^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$",
        description="Their language; without it `agent.language` with its usual region.",
        examples=["fr-FR"],
    )
    destinations: dict[Name, Destination] = Field(
        default_factory=dict[Name, Destination],
        max_length=50,
        description="Whom a call can be transferred to, by name.",
        examples=[{"sales": {"number": "+33123456789"}}],
    )
    dtmf: bool = Field(default=True, description="Digits of the keypad reach the model.", examples=[False])
    wrap_up_s: float = Field(
        default=30,
        ge=5,
        le=120,
        description="Seconds before `limits.max_call_s` at which the model is asked to end.",
        examples=[20],
    )
