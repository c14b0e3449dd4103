"""Tries the voice of an agent at its start: opens a real session with the settings of its
document.
"""

from __future__ import annotations

from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.world import problem
from graphrag.config import Settings
from tools.http.problems import DocumentProblem


async def voice_problem(settings: Settings, agent: CompiledAgent) -> DocumentProblem | None:
    """Returns why the Realtime service refuses the settings of an agent, or why it could not be
    asked.

    None if it accepts them. If no such service is configured, that is a problem only of an agent
    that has no other channel than calls.
    """
    # Imported here: most commands never try a voice.
    from graphrag.app.voice_services import realtime_key, speaker_of
    from graphrag.realtime.openai_side import OpenAISide
    from graphrag.realtime.session_trial import NotTried, trial_session, try_session

    document = agent.document
    speaker, key = speaker_of(settings), realtime_key(settings)
    if not document.uses_realtime:
        return None
    if speaker == "off" and set(document.channels) == {"voice"}:
        what = "no voice model is configured: its callers hear that nobody is free"
        return problem("channels", "no_voice_model", what, None)
    if speaker != "openai" or key is None:
        return None
    side = OpenAISide(settings.realtime_url, key, document.openai.model)
    try:
        refusal = await try_session(side, trial_session(document, settings.language))
    except NotTried as exc:
        what = f"the service of the model could not be asked: {exc.why}"
        return problem("openai", "model_not_tried", what, None)
    if refusal is None:
        return None
    if refusal.is_about_transcription and not refusal.is_final:
        what = f"the service of the model refuses the transcription: {refusal.sentence()}"
        return problem("openai.input_audio_transcription", "transcription_refused", what, None)
    if refusal.is_rate_limit:
        return problem("openai", "model_not_tried", refusal.sentence(), None)
    return problem(
        "openai",
        "model_refused",
        f"the service of the model refuses it: {refusal.sentence()}",
        None,
    )
