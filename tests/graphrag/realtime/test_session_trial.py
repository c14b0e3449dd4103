"""A session is opened with an agent's settings before anybody calls, and what is refused
is known then.
"""

from typing import Any, get_args

import pytest
from openai.types.realtime import AudioTranscription
from openai.types.realtime.realtime_session_create_request import RealtimeSessionCreateRequest

from datasources.mock import MemoryDatabase
from graphrag.agents.document_check import check_document
from graphrag.agents.realtime_models import REALTIME_MODELS, RETIRING, TRANSCRIBERS
from graphrag.app.voice_diagnostics import examine_voice
from graphrag.app.voice_trial import voice_problem
from graphrag.config import Settings
from tests.graphrag.agents.managing import ADMIN, ManagerCase, document
from tests.graphrag.realtime.conversing import CLIENT
from tests.graphrag.realtime.test_refusals import (
    NO_TRANSCRIBER,
    QUOTA,
    UNKNOWN_PARAMETER,
    limit,
)
from tests.support.agent_documents import agent_document
from tests.support.faulty_double import Faults, FaultyDouble
from tests.support.scripted_mind import ScriptedMind

KEY = "sk-of-the-double"


def settings_of(double: FaultyDouble) -> Settings:
    return Settings(realtime="openai", realtime_url=double.url, realtime_api_key=KEY)  # type: ignore[arg-type]


def refused(**faults: Any) -> FaultyDouble:
    return FaultyDouble(ScriptedMind([]), key=KEY, faults=[Faults(**faults)] * 2)


def updates(*errors: dict[str, Any]) -> dict[str, Any]:
    return {"refusals": {"session.update": errors}}


@pytest.mark.parametrize(
    ("faults", "code", "said"),
    [
        (updates(UNKNOWN_PARAMETER), "model_refused", "session.tools[2].meta"),
        (updates(QUOTA), "model_refused", "insufficient_quota: You exceeded"),
        (updates(NO_TRANSCRIBER), "transcription_refused", "Supported values are: 'whisper-1'"),
        (updates(limit("20s")), "model_not_tried", "Please try again in 20s"),
        ({"refused_code": "model_not_found"}, "model_refused", "model_not_found"),
        ({"refused_status": 401}, "model_refused", "HTTP 401"),
        ({"refused_status": 503}, "model_not_tried", "HTTP 503"),
        ({"closed_at": 2}, "model_not_tried", "lost"),
    ],
)
async def test_what_a_service_refuses_of_an_agent_is_said_when_it_is_started(
    faults: dict[str, Any], code: str, said: str
) -> None:
    agent = check_document(agent_document() | {"channels": ["voice"]}).agent
    assert agent is not None
    async with refused(**faults) as double:
        found = await voice_problem(settings_of(double), agent)
        assert found is not None
        assert found.code == code
        assert said in found.what


async def test_a_service_that_takes_an_agent_has_seen_its_settings_and_tools() -> None:
    openai = {"voice": "cedar", "vad": {"type": "semantic_vad"}, "max_output_tokens": 77}
    agent = check_document(agent_document() | {"channels": ["voice"], "openai": openai}).agent
    assert agent is not None
    async with FaultyDouble(ScriptedMind([]), key=KEY) as double:
        assert await voice_problem(settings_of(double), agent) is None
        session = double.sessions[0].session
    assert (session["audio"]["output"]["voice"], session["max_output_tokens"]) == ("cedar", 77)
    assert session["audio"]["input"]["turn_detection"]["type"] == "semantic_vad"
    assert [tool["name"] for tool in session["tools"]] == [
        tool["name"] for tool in agent_document()["session"]["tools"]
    ]
    (update,) = [
        event for event in double.sessions[0].received if event["type"] == "session.update"
    ]
    assert CLIENT["session.update"].model_validate(update)
    assert session["instructions"] == agent_document()["session"]["instructions"]
    assert "response.create" not in [event["type"] for event in double.sessions[0].received]
    assert await voice_problem(Settings(realtime="double"), agent) is None
    in_chat = check_document(agent_document() | {"channels": ["chat"]}).agent
    assert in_chat is not None
    assert await voice_problem(settings_of(double), in_chat) is None, "nobody calls it"


@pytest.mark.parametrize(
    ("channels", "realtime", "code"),
    [
        (["voice"], "off", "no_voice_model"),
        (["voice"], "double", None),
        (["voice", "chat"], "off", None),  # its chats are answered
    ],
)
async def test_an_agent_for_calls_alone_is_told_that_nothing_answers_them(
    channels: list[str], realtime: Any, code: str | None
) -> None:
    agent = check_document(agent_document() | {"channels": channels}).agent
    assert agent is not None
    found = await voice_problem(Settings(realtime=realtime), agent)
    assert (found and found.code) == code


async def test_the_doctor_opens_a_session_with_the_settings_of_each_agent() -> None:
    async with MemoryDatabase() as database, refused(**updates(UNKNOWN_PARAMETER)) as double:
        manager = ManagerCase(database).manager()
        await manager.apply(document(channels=["voice"]), ADMIN)
        await manager.start("helpdesk")
        found = {
            each.name: each for each in await examine_voice(settings_of(double), database, ask=True)
        }
    assert found["speaker"].status == "error"
    assert "unknown_parameter, session.tools[2].meta: Unknown parameter" in found["speaker"].detail


def test_the_names_that_are_known_are_those_of_the_vendors_package() -> None:
    def published(annotation: Any) -> set[str]:
        return {name for part in get_args(annotation) for name in get_args(part)}

    assert published(RealtimeSessionCreateRequest.model_fields["model"].annotation) == set(
        REALTIME_MODELS
    )
    assert published(AudioTranscription.model_fields["model"].annotation) == set(TRANSCRIBERS)
    assert RETIRING.keys() | set(RETIRING.values()) <= {*REALTIME_MODELS, *TRANSCRIBERS}
