"""Checks the requirements of telephone calls: a public address, signatures, a speaking model, and
speech for simulated callers.
"""

from __future__ import annotations

from typing import Final

from datasources.base import Database, Finding
from datasources.errors import BadDocument
from graphrag.agents.agent_store import Agents
from graphrag.agents.document import AgentDocument
from graphrag.agents.errors import AgentError
from graphrag.agents.realtime_models import RETIRING
from graphrag.app.voice_services import realtime_key, speaker_of
from graphrag.config import Settings
from graphrag.realtime.openai_side import OpenAISide
from graphrag.realtime.session_trial import NotTried, trial_session, try_session
from graphrag.simulator.speech import speech

# Maximum number of agents whose documents are read for their models.
MOST_AGENTS: Final = 50
MOST_MODELS: Final = 5
# A document with default settings, tried if no agent uses the telephone.
_PLAIN: Final = {
    "version": "2.0",
    "agent": {"id": "plain", "name": "plain"},
    "session": {"mode": "inline", "instructions": "-"},
}
_CALLS, _SPEAKER, _SPEECH = "calls", "speaker", "speech"


async def examine_voice(settings: Settings, database: Database, *, ask: bool) -> list[Finding]:
    """Returns configuration problems of telephone calls. With `ask` opens a session for each agent.

    Raises: SourceError.
    """
    speaking, retiring, is_called = await _named_models(settings, database)
    return [
        _way_in(settings, is_wanted=is_called),
        await _speaker(settings, speaking, retiring, ask=ask),
        _speech(),
    ]


async def _named_models(
    settings: Settings, database: Database
) -> tuple[list[AgentDocument], list[str], bool]:
    """Returns documents of running agents with a Realtime model, one for each set of its settings,
    the models that the vendor will end, and whether any running agent answers calls.
    """
    agents = Agents(database.records(settings.workspace), settings.workspace)
    running = await agents.list(desired="running")
    wanted = [agent for agent in running if "voice" in agent.channels]
    speaking = dict[str, AgentDocument]()
    retiring = set[str]()
    for agent in wanted[:MOST_AGENTS]:
        try:
            document = (await agents.version(agent.agent_id, agent.version)).document
            parsed = AgentDocument.model_validate(document)
        except (AgentError, BadDocument, ValueError):  # reported by the finding about agents
            continue
        if not parsed.uses_realtime:
            continue
        model = parsed.openai
        speaking.setdefault(model.model_dump_json(), parsed)
        for name in (model.model, model.input_audio_transcription.model):
            if name in RETIRING:
                retiring.add(f"{name} (agent {agent.agent_id}): use {RETIRING[name]}")
    documents = list(speaking.values())[:MOST_MODELS]
    return documents, sorted(retiring)[:MOST_MODELS], bool(wanted)


def _way_in(settings: Settings, *, is_wanted: bool) -> Finding:
    needed = {
        "NODIUS_PUBLIC_URL": settings.public_url,
        "NODIUS_TWILIO_AUTH_TOKEN": settings.twilio.auth_token,
    }
    missing = [name for name, value in needed.items() if value is None]
    if missing:
        detail = f"none come in from outside: {' and '.join(missing)} not set"
        fix = "set both for calls from the telephone; calls in the browser and simulated ones need neither"
        return Finding(name=_CALLS, status="warning" if is_wanted else "ok", detail=detail, fix=fix)
    if not (settings.public_url or "").startswith("https://"):
        detail = f"{settings.public_url} is no https address: Twilio sends signed requests to those"
        return Finding(name=_CALLS, status="warning", detail=detail, fix="put a TLS proxy in front")
    at_once = (
        f"at most {settings.voice.max_calls} at once, kept for {settings.call_retention_days} days"
    )
    return Finding(name=_CALLS, status="ok", detail=f"at {settings.public_url}, signed; {at_once}")


async def _speaker(
    settings: Settings, speaking: list[AgentDocument], retiring: list[str], *, ask: bool
) -> Finding:
    speaker = speaker_of(settings)
    if speaker == "off":
        detail = "no Realtime model speaks in calls; agents with voice.engine text need none"
        fix = "set OPENAI_API_KEY, or NODIUS_REALTIME=double for a stand-in without key and network"
        return Finding(
            name=_SPEAKER, status="warning" if speaking else "ok", detail=detail, fix=fix
        )
    if speaker == "double":
        return Finding(name=_SPEAKER, status="ok", detail="the realtime double: no key, no network")
    if realtime_key(settings) is None:
        fix = "set NODIUS_REALTIME_API_KEY or OPENAI_API_KEY"
        return Finding(
            name=_SPEAKER, status="error", detail="no key of the Realtime interface", fix=fix
        )
    documents = speaking or [AgentDocument.model_validate(_PLAIN)]
    models = sorted({document.openai.model for document in documents})
    refused = [why for d in documents if (why := await _refusal(settings, d))] if ask else []
    detail = f"Realtime interface at {settings.realtime_url}"
    if refused:
        fix = "look at the key, the model that the documents name, and the network"
        return Finding(
            name=_SPEAKER, status="error", detail=f"{detail}: {'; '.join(refused)}", fix=fix
        )
    if retiring:
        detail += f"; the vendor announced the end of {'; '.join(retiring)}"
        return Finding(
            name=_SPEAKER, status="warning", detail=detail, fix="name it in the documents"
        )
    detail += f"; it takes {', '.join(models)}" if ask else ""
    return Finding(name=_SPEAKER, status="ok", detail=detail)


async def _refusal(settings: Settings, document: AgentDocument) -> str | None:
    """Returns why a session with the settings of a document is refused, None if it is accepted."""
    model = document.openai.model
    side = OpenAISide(settings.realtime_url, realtime_key(settings) or "", model)
    try:
        refusal = await try_session(side, trial_session(document, settings.language))
    except NotTried as exc:
        return f"{model}: {exc.why}"
    return None if refusal is None else f"{model}: {refusal.sentence()}"


def _speech() -> Finding:
    if speech().says_all:
        return Finding(
            name=_SPEECH, status="ok", detail="espeak-ng says what simulated callers say"
        )
    detail = "simulated callers say the packaged sentences, tones for others"
    return Finding(
        name=_SPEECH, status="ok", detail=detail, fix="install espeak-ng to have any text said"
    )
