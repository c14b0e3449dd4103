"""Checks the blocks of a message when it is sent, and reads the data they refer to."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

from datasources.base import GraphDataSource
from datasources.builtin_types import types_by_name
from datasources.text import node_label
from datasources.types import Graph
from graphrag.answer_body import AnswerBody
from graphrag.commands.blocks import (
    Block,
    BlockRefused,
    SentBlock,
    Target,
    blocks_of,
    check_blocks,
    linear_text,
    segments_of,
    summary,
    with_instants,
)
from graphrag.commands.data_commands import CommandPlace, commands
from graphrag.commands.execute import CommandResult, Guard, data_added, execute
from graphrag.commands.graph_history import GraphHistory
from graphrag.i18n import Language
from graphrag.leases import now_ms
from graphrag.llm.base import SystemMessage, UserMessage, clean
from graphrag.prompts.library import load_phrases
from graphrag.sessions.periods import Calendar
from tools.base import Role, ToolContext
from tools.compact import cut_name
from tools.read_tools.views import describe_near, near_nodes
from tools.tool_box import ToolBox

NAME_CHARS: Final = 60
NEAR: Final = 5
COMPARED: Final = 5_000  # keys that are searched for one similar to an unknown key


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BlockChecker:
    """Checks the blocks that people send. Units: `clock` in milliseconds since 1970.

    The default calendar of periods is that of `history`.
    """

    source: GraphDataSource
    history: GraphHistory
    clock: Callable[[], int] = now_ms

    @property
    def calendar(self) -> Calendar:
        return self.history.calendar

    async def checked(
        self,
        graph_key: str,
        words: str,
        blocks: Sequence[SentBlock],
        language: Language,
        *,
        calendar: Calendar | None = None,
        keep_relative: bool = False,
    ) -> UserMessage:
        """Returns the message of a person with these words and blocks, its periods as instants.

        With `keep_relative` periods stay as written: a template resolves them when it is run.
        Raises: TooManyBlocks, BlockRefused (with similar keys), GraphNotFound.
        """
        if not blocks:
            return UserMessage(content=clean(words))
        calendar = calendar or self.calendar
        resolved, summaries = await self.summaries(
            graph_key, blocks, language, calendar, keep_relative
        )
        content, segments = segments_of(clean(words), resolved, summaries)
        return UserMessage(content=content, segments=segments)

    async def summaries(
        self,
        graph_key: str,
        blocks: Sequence[SentBlock],
        language: Language,
        calendar: Calendar,
        keep_relative: bool = False,
    ) -> tuple[list[SentBlock], dict[str, str]]:
        """Returns checked blocks with their periods as instants, and the summaries by block id.

        Raises: as `checked`.
        """
        check_blocks(blocks)
        resolved = with_instants(blocks, self.clock(), calendar)
        kept = list(blocks) if keep_relative else resolved
        graph = await self.source.get_graph(graph_key)
        summaries: dict[str, str] = {}
        for number, block in enumerate(kept, start=1):
            name, near = await self.name(graph, block.target)
            if name is None:
                facts = {
                    "kind": block.target.kind,
                    "key": block.target.key[:100],
                    "near": near or "–",
                }
                raise BlockRefused(number=number, why="without_target", **facts)
            summaries[block.id] = summary(block, cut_name(name, NAME_CHARS), language, calendar)
        return kept, summaries

    async def name(self, graph: Graph, target: Target) -> tuple[str | None, str | None]:
        """Returns the name of a target, or None and similar keys."""
        key = target.key
        match target.kind:
            case "graph":
                return (graph.name, None) if key == graph.key else (None, graph.key)
            case "sheet":
                return graph.sheets_list.get(key), _near(key, graph.sheets_list)
            case "nodeType":
                types = types_by_name(await self.source.get_node_configs())
                return (
                    (types[key].display_name, None) if key in types else (None, _near(key, types))
                )
            case "node":
                nodes = await self.source.get_nodes_by_key(graph.key, [key])
                if nodes:
                    return node_label(nodes[0]), None
                return None, describe_near(await near_nodes(self.source, graph, key), graph)
            case "edge":
                for edge in await self.source.get_edges_by_key(graph.key, [key]):
                    return f"{edge.source} → {edge.target}", None
                others = await self.source.get_edges(graph.key, limit=COMPARED)
                return None, _near(key, [other.key for other in others])


def _near(key: str, known: Iterable[str]) -> str | None:
    near = difflib.get_close_matches(key, list(known)[:COMPARED], n=NEAR, cutoff=0.5)
    return ", ".join(near) or None


@final
class BlockSummary(AnswerBody):
    """A block in one line. `tokens`: the size of its data if it were the only block."""

    id: str
    summary: str
    tokens: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BlockReader:
    """Reads the data that blocks refer to, in one workspace. Units: `budget` in tokens.

    A run of an automation passes its own calendar, and the time its periods count from.
    """

    checker: BlockChecker
    box: ToolBox
    guard: Guard
    budget: int = 8_000

    async def read(
        self,
        message: UserMessage,
        graph_key: str,
        role: Role,
        language: Language,
        *,
        calendar: Calendar | None = None,
        reference: int | None = None,
    ) -> SystemMessage | None:
        """Returns the data of a message's blocks for the model, None if it has no blocks.

        Deleted targets and invalid periods are reported in it. Raises: SourceError.
        """
        blocks = blocks_of(message.segments)
        if not blocks:
            return None
        reference = self.checker.clock() if reference is None else reference
        history = self.history_of(calendar, reference)
        results = await self._results(blocks, graph_key, role, language, history)
        head = load_phrases("turn", language)["data_added"].render({})
        return data_added(results, head, language)

    async def worded(
        self, message: UserMessage, graph_key: str, language: Language, calendar: Calendar | None
    ) -> UserMessage:
        """Returns a stored message with its linear text rendered again, from the current names.

        A deleted target is shown by its key. Raises: GraphNotFound.
        """
        blocks = blocks_of(message.segments)
        if not blocks:
            return message
        checker = self.checker
        graph = await checker.source.get_graph(graph_key)
        summaries = dict[str, str]()
        for block in blocks:
            name, _ = await checker.name(graph, block.target)
            name = cut_name(name or block.target.key, NAME_CHARS)
            summaries[block.id] = summary(block, name, language, calendar or checker.calendar)
        return replace(message, content=linear_text(message.segments, summaries))

    def history_of(self, calendar: Calendar | None, reference: int | None) -> GraphHistory:
        """Returns the history with periods counted by a calendar, from `reference` on."""
        calendar = calendar or self.checker.calendar
        return replace(self.checker.history, calendar=calendar, reference=reference)

    async def preview(
        self, graph_key: str, blocks: Sequence[SentBlock], role: Role, language: Language
    ) -> list[BlockSummary]:
        """Returns the summary and the size of each block. Raises: as `BlockChecker.checked`."""
        checker = self.checker
        resolved, summaries = await checker.summaries(graph_key, blocks, language, checker.calendar)
        history = self.history_of(None, checker.clock())
        previews: list[BlockSummary] = []
        for block in resolved:
            results = await self._results([block], graph_key, role, language, history)
            tokens = sum(one.tokens for one in results)
            previews.append(BlockSummary(id=block.id, summary=summaries[block.id], tokens=tokens))
        return previews

    async def _results(
        self,
        blocks: Sequence[Block],
        graph_key: str,
        role: Role,
        language: Language,
        history: GraphHistory,
    ) -> list[CommandResult]:
        context = ToolContext(
            source=self.checker.source,
            graph_key=graph_key,
            role=role,
            language=language,
            history=history,
        )
        place = CommandPlace(context=context, box=self.box, history=history)
        return await execute(
            [commands(block) for block in blocks], place, self.guard, budget=self.budget
        )
