"""Writes the system prompt of an agent: our rules, the instructions of its document, its graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from datasources.base import GraphDataSource
from datasources.errors import GraphNotFound
from graphrag.agent.thread_agent import Channel
from graphrag.agents.compiled_agent import CompiledAgent, graphs_of
from graphrag.i18n import Language
from graphrag.llm.base import SystemMessage
from graphrag.llm.tokens import count_tokens
from graphrag.prompts.library import load_phrases
from graphrag.retrieval.outline import build_outline
from tools.compact import cut, cut_name
from tools.toon import encode

OUTLINE_TOKENS: Final = 1_500  # for the outlines of all graphs of an agent together


async def write_agent_prompt(
    source: GraphDataSource,
    agent: CompiledAgent,
    instructions: str,
    *,
    about: str,
    proposes: bool,
    code: str,
    language: Language,
    channel: Channel = "chat",
) -> SystemMessage:
    """Returns the system prompt of a conversation with an agent; `about`: its graph, or "".

    `code`: BCP-47 code of the agent's language; `language`: that of our own texts. Raises:
    PromptError, SourceError.
    """
    graphs = graphs_of(agent, about)
    phrases = load_phrases("agent", language)

    def say(phrase: str, /, **values: str) -> str:
        return phrases[phrase].render(values)

    known = f"language_{code.partition('-')[0].lower()}"
    speaks = say(known) if known in phrases else say("language_other", code=code)
    by_voice = channel == "voice"
    who = say(
        "who_voice" if by_voice else "who_chat",
        name=cut_name(agent.document.agent.name, 120),
        language=speaks,
    )
    rules = [say("rules", who=who), *([say("voice")] if by_voice else [])]
    if graphs:
        rules.append(say("graphs_voice" if by_voice else "graphs", graph=graphs[0]))
        rules += [say("graph_argument", graph=graphs[0])] if len(graphs) > 1 else []
        rules += [say("propose")] if proposes else []
    if proposes:
        rules.append(load_phrases("phrases", language)["argument_forms"].render({}))
    parts = ["\n".join(rules), say("instructions", instructions=instructions)]
    if outlines := await _outlines(source, graphs, language):
        parts.append(say("outlines", outlines="\n\n".join(outlines)))
    return SystemMessage(content="\n\n".join(parts))


async def _outlines(
    source: GraphDataSource, graphs: Sequence[str], language: Language
) -> list[str]:
    """Returns an outline of each existing graph, or its size if there is no room."""
    made: list[str] = []
    left = OUTLINE_TOKENS
    for place, key in enumerate(graphs):
        share = left // (len(graphs) - place)
        try:
            graph = await source.get_graph(key)
            outline = await build_outline(
                source, graph, language=language, budget_tokens=share, count_tokens=count_tokens
            )
            if outline is None:
                stats = await source.get_stats(key)
                head = {
                    "graph": key,
                    "name": cut_name(graph.name, 120),
                    "description": cut(graph.description or "", 120),
                    "nodes": stats.nodes,
                    "edges": stats.edges,
                }
                outline = encode(head)
        except GraphNotFound:
            continue
        left = max(0, left - count_tokens(outline))
        made.append(outline)
    return made
