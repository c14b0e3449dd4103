"""Foreign types get names that people read."""

from __future__ import annotations

from graphrag.importers.n8n.node_types import n8n_facts
from graphrag.importers.node_red.flow_nodes import red_facts
from graphrag.importers.type_facts import humanise
from tests.support.each_row import each_row


@each_row(
    "technical, shown",
    [
        ("httpRequest", "HTTP Request"),
        ("googleSheets", "Google Sheets"),
        ("mySql", "MySQL"),
        ("awsS3", "AWS S3"),
        ("http in", "HTTP In"),
        ("mqtt-broker", "MQTT Broker"),
        ("ds18b20", "Ds18b20"),
        ("x", "X"),
        ("…", "…"),
        ("", "Node"),
    ],
)
def test_technical_name_becomes_words(technical: str, shown: str) -> None:
    assert humanise(technical) == shown


@each_row(
    "name, shown",
    [
        ("lmChatOpenAi", "OpenAI Chat Model"),
        ("toolWikipedia", "Wikipedia Tool"),
        ("outputParserStructured", "Structured Output Parser"),
        ("textSplitterRecursiveCharacterTextSplitter", "Recursive Character Text Splitter"),
        ("tool", "Tool"),
    ],
)
def test_part_of_an_ai_node_is_named_as_n8n_shows_it(name: str, shown: str) -> None:
    assert n8n_facts(f"@n8n/n8n-nodes-langchain.{name}").display_name == shown


def test_unknown_types_are_sorted_by_what_they_are() -> None:
    assert n8n_facts("fooTrigger").category == "trigger"
    assert n8n_facts("toolFoo").category == "ai"
    assert n8n_facts("foo").category == "action"
    assert red_facts("foo", config=True).category == "config"
