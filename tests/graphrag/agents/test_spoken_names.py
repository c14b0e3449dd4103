"""Names for a transcriber: those that are said, most connected first, within limits, no secrets."""

from typing import Any

import pytest
from openai.types.realtime import AudioTranscription

from graphrag.agents.document_check import check_document
from graphrag.agents.realtime_models import TRANSCRIBERS
from graphrag.agents.spoken_names import MAX_CHARS, MAX_NAMES, spoken_names
from graphrag.agents.spoken_names import (
    _chosen as chosen,  # pyright: ignore[reportPrivateUsage]
)
from graphrag.agents.voice_fields import VoiceModel, VoiceOptions
from graphrag.realtime.session_settings import SessionSettings
from tests.graphrag.realtime.test_call_with_double import called
from tests.support.agent_life import document
from tests.support.chosen_database import sample_database
from tests.support.scripted_mind import ScriptedMind
from tools.http.secret_values import Secrets

GRAPH = "testgraph001"


def model(name: str, **fields: Any) -> VoiceModel:
    heard = {"model": name, "graph_names": True} | fields
    return VoiceModel.model_validate({"input_audio_transcription": heard})


async def test_the_graph_and_its_most_connected_nodes_are_named_first() -> None:
    async with sample_database() as database:
        source = database.source("default")
        names = await spoken_names(source, [GRAPH, "no such graph"], Secrets({}))
        graph = await source.get_graph(GRAPH)
        nodes = {node.key: node for node in await source.get_nodes(GRAPH)}
        edges = await source.get_edges(GRAPH)
    assert names[0] == graph.name
    ends = [key for edge in edges for key in (edge.source, edge.target)]
    most = max(nodes, key=ends.count)
    assert ends.count(next(key for key in nodes if nodes[key].data["name"] == names[1])) == (
        ends.count(most)
    )
    secret = Secrets({"NAME": names[1]})
    assert len(names[1]) >= 8
    async with sample_database() as database:
        without = await spoken_names(database.source("default"), [GRAPH], secret)
    assert names[1] not in without
    assert set(without) <= set(names)


@pytest.mark.parametrize(
    "name", ["x", "{{secret.KEY}}", "https://a.example", "a" * 41, "12345 ab", "42"]
)
async def test_what_nobody_says_is_left_out(name: str) -> None:
    assert _chosen([name, "Orders"]) == ("Orders",)


def test_names_are_bounded_in_number_and_characters() -> None:
    many = [f"n {chr(97 + at % 26)}{chr(97 + at // 26)}" for at in range(200)]
    assert len(_chosen([*many, *many])) == MAX_NAMES
    assert sum(map(len, _chosen([f"{name} {'long ' * 6}".strip() for name in many]))) <= MAX_CHARS


def _chosen(names: list[str]) -> tuple[str, ...]:
    return chosen(names, Secrets({}))


@pytest.mark.parametrize("transcriber", TRANSCRIBERS)
def test_each_transcriber_gets_names_in_the_form_that_it_takes(transcriber: str) -> None:
    settings = SessionSettings(
        model=model(transcriber, prompt="A shop."),
        options=VoiceOptions(),
        instructions="",
        names=("Orders", "Active players"),
    )
    heard = settings.update()["audio"]["input"]["transcription"]
    AudioTranscription.model_validate(heard, strict=True)
    del heard["model"], heard["language"]
    match transcriber:
        case "gpt-transcribe" | "gpt-live-transcribe":
            assert heard == {"prompt": "A shop.", "keywords": ["Orders", "Active players"]}
        case "gpt-realtime-whisper":
            assert heard == {"prompt": "A shop."}
        case _:
            assert heard == {"prompt": "A shop.\nOrders, Active players"}


@pytest.mark.parametrize("wanted", [True, False])
async def test_a_call_sends_names_only_where_its_document_says_so(wanted: bool) -> None:
    heard = {"graph_names": wanted}
    async with called(ScriptedMind([]), openai={"input_audio_transcription": heard}) as (
        call,
        double,
    ):
        await call.until(
            lambda: bool(double.sessions) and bool(double.sessions[0].sound_in["transcription"])
        )
        sent = double.sessions[0].sound_in["transcription"]
        await call.hang_up()
    assert ("keywords" in sent) == wanted
    if wanted:
        assert "NBA Stats Pipeline" in sent["keywords"]


def test_a_document_is_told_where_names_are_not_used() -> None:
    for name, graphs in (("gpt-realtime-whisper", [GRAPH]), ("gpt-transcribe", [])):
        heard = {"model": name, "graph_names": True}
        agent = document(graphs=graphs, openai={"input_audio_transcription": heard})
        warnings = [each for each in check_document(agent).warnings if "graph_names" in each.where]
        assert [each.code for each in warnings] == ["ignored_field"]
