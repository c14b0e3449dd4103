"""What an agent needs of the world is looked up, and what it lacks is said with its place."""

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from jsonschema import Draft202012Validator

from graphrag.agents.declared_tools import checked_declarations, parameters_problem
from graphrag.agents.document_check import WARNINGS, check_document
from graphrag.agents.world import check_world
from graphrag.app.wiring import open_shared
from graphrag.config import Settings, SettingsError
from tests.support.agent_documents import agent_document
from tests.support.document_codes import WORLD_ERRORS
from tools.http import builders
from tools.http.secret_values import Secrets


@dataclass
class SmallWorld:
    """A world with one graph, one secret and one provider."""

    refused: dict[str, Literal["refused", "unknown"]] = field(default_factory=dict)
    secrets: Secrets = field(default_factory=lambda: Secrets({"API_KEY": "abcdefgh"}))
    keys: frozenset[str | None] = frozenset((None, "openai"))
    asked: list[tuple[str, int]] = field(default_factory=list)

    async def has_graph(self, graph_key: str) -> bool:
        return graph_key == "nba"

    async def host_refused(self, host: str, port: int) -> Literal["refused", "unknown"] | None:
        self.asked.append((host, port))
        return self.refused.get(host)

    def has_model_key(self, provider: str | None) -> bool:
        return provider in self.keys


async def lacking(world: SmallWorld, **changes: Any) -> list[tuple[str, str]]:
    agent = check_document(agent_document() | changes).agent
    assert agent is not None
    return [(problem.code, problem.where) for problem in await check_world(agent, world)]


async def test_nothing_is_lacking_and_each_host_is_asked_for_once() -> None:
    world = SmallWorld()
    assert await lacking(world) == []
    assert world.asked == [("api.example.com", 443)]


async def test_all_that_is_lacking_is_said_at_once() -> None:
    world = SmallWorld(
        refused={"api.example.com": "refused", "other.example.com": "unknown"}, secrets=Secrets({})
    )
    tools = agent_document()["tools"] | {
        "other": {"type": "http", "url": "https://other.example.com:8443/x"}
    }
    found = await lacking(world, graphs=["nba", "nfl"], tools=tools, chat={"provider": "anthropic"})
    assert found == [
        ("graph_not_found", "graphs.1"),
        ("host_not_allowed", "base_url"),
        ("host_unknown", "tools.other.url"),
        ("secret_missing", "secrets.0.name"),
        ("model_key_missing", "chat.provider"),
    ]
    assert await lacking(SmallWorld(), chat={"provider": "openia"}) == [
        ("provider_unknown", "chat.provider")
    ]
    when_started = {"model_refused"}
    assert {code for code, _ in found} | {"provider_unknown"} == (
        WORLD_ERRORS | {"host_unknown"}
    ) - when_started
    assert "host_unknown" in WARNINGS


async def test_an_agent_of_the_phone_alone_needs_no_model_of_chats() -> None:
    assert await lacking(SmallWorld(keys=frozenset()), channels=["voice"]) == []


def test_of_fetched_declarations_only_those_are_kept_that_a_document_could_have() -> None:
    function = {"type": "function", "name": "ask"}
    nested: dict[str, Any] = {"type": "object"}
    for _ in range(9):
        nested = {"type": "object", "properties": {"a": nested}}
    tools: list[Any] = [
        function | {"description": "First."},
        function,
        {"type": "function", "name": "nobody"},
        function | {"strict": True},
        function | {"name": "tell", "parameters": nested},
        function
        | {
            "name": "tell",
            "parameters": {"type": "object", "properties": {"a": {"$ref": "http://x"}}},
        },
        None,
        "ask",
    ]
    kept, dropped = checked_declarations(tools, {"ask", "tell"})
    assert [(declaration.name, declaration.description) for declaration in kept] == [
        ("ask", "First.")
    ]
    assert [name for name, _ in dropped] == ["ask", "nobody", "ask", "tell", "tell", "None", "ask"]
    assert all(reason for _, reason in dropped)
    for hostile in (None, 3, "x", {"a": 1}, [[[]]] * 1_000):
        assert checked_declarations(hostile, {"ask"})[0] == []


def test_a_schema_that_is_taken_is_one_of_draft_2020_12() -> None:
    chance = random.Random(0)
    words: list[Any] = [
        "a",
        1,
        -1,
        1.5,
        True,
        None,
        [],
        ["a"],
        {},
        {"a": {}},
        {"a": 1},
        [{}],
        "#/$defs/a",
        "object",
    ]
    taken = 0
    for _ in range(150):
        inner = {
            name: chance.choice(words) for name in chance.sample(KEYWORDS, chance.choice((1, 1, 2)))
        }
        schema = {"type": "object", "$defs": {"a": {}}, "properties": {"x": inner}}
        if parameters_problem(schema) is None:
            taken += 1
            Draft202012Validator.check_schema(schema)
    assert taken > 10


KEYWORDS = (
    *(
        "type",
        "items",
        "additionalProperties",
        "propertyNames",
        "contains",
        "not",
        "if",
        "then",
        "else",
    ),
    *(
        "allOf",
        "anyOf",
        "oneOf",
        "prefixItems",
        "enum",
        "examples",
        "required",
        "properties",
        "const",
    ),
    *(
        "patternProperties",
        "dependentSchemas",
        "dependentRequired",
        "title",
        "description",
        "format",
    ),
    *(
        "pattern",
        "$ref",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
    ),
    *(
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "uniqueItems",
        "default",
    ),
)


CODE = """
from pydantic import BaseModel

class NoOptions(BaseModel):
    pass

def build(args, ctx, session, options, about):
    return {"items": args["items"]}

builder = (build, NoOptions)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with a builder named shop_basket, and one whose module fails."""
    (tmp_path / "shop_builders.py").write_text(CODE)
    facts = tmp_path / "shop_builders-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-builders\nVersion: 1.0\n")
    points = "shop_basket = shop_builders:builder\nshop_broken = shop_builders:missing\n"
    (facts / "entry_points.txt").write_text(f"[{builders.ENTRY_POINTS}]\n{points}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(builders, "_registered", dict(builders._registered))
    return tmp_path


async def test_a_listed_builder_builds_the_bodies_of_documents(package: Path) -> None:
    assert "shop_basket" not in builders.builder_names()
    settings = Settings(db="memory:", embeddings="none", body_builders=("shop_basket",))
    for _ in range(2):  # a process may open its services twice
        async with open_shared(settings):
            assert builders.parse_builder("shop_basket").name == "shop_basket"


@pytest.mark.parametrize("name", ["nobody_brings_it", "shop_broken"])
async def test_a_listed_builder_that_cannot_be_loaded_is_a_wrong_setting(
    package: Path, name: str
) -> None:
    settings = Settings(db="memory:", embeddings="none", body_builders=(name,))
    with pytest.raises(SettingsError, match="NODIUS_BODY_BUILDERS"):
        async with open_shared(settings):
            raise AssertionError


@pytest.mark.parametrize(
    ("engine", "lacks"), [("realtime", []), ("text", [("model_key_missing", "chat.provider")])]
)
async def test_calls_that_the_model_of_chats_answers_need_its_key(
    engine: str, lacks: list[tuple[str, str]]
) -> None:
    voice = agent_document()["voice"] | {"engine": engine}
    changes = {"channels": ["voice"], "voice": voice, "chat": {"provider": "anthropic"}}
    assert await lacking(SmallWorld(), **changes) == lacks
