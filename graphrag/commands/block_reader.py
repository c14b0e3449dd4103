"""Reads what the blocks of a message are about: for a turn, for a run, and to show it before sending."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from datasources.base import GraphDataSource
from graphrag.commands.block_checker import NAME_CHARS, BlockChecker
from graphrag.commands.blocks import (
    Block,
    SentBlock,
    blocks_of,
    check_blocks,
    linear_text,
    summary,
    with_instants,
)
from graphrag.commands.command_reads import CommandPlace
from graphrag.commands.enrichments import commands
from graphrag.commands.execute import CommandResult, Guard, data_added, execute
from graphrag.commands.graph_history import GraphHistory
from graphrag.commands.transform import transform
from graphrag.i18n import Language
from graphrag.leases import now_ms
from graphrag.llm.base import SystemMessage, UserMessage
from graphrag.prompts.library import load_phrases
from graphrag.sessions.periods import Calendar
from graphrag.sessions.schedules import zone_of
from tools.base import Role, ToolBox, ToolContext
from tools.compact import cut_name


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPreview:
    """What a block says in one line, and how many tokens what it reads has now."""

    id: str
    summary: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockReader:
    """Reads the blocks of the messages of one workspace. Units: `budget` in tokens, `clock` in milliseconds.

    Periods count by the calendar; a session passes its own, and the moment they count from.
    """

    source: GraphDataSource
    box: ToolBox
    guard: Guard
    history: GraphHistory
    budget: int = 8_000
    clock: Callable[[], int] = now_ms

    @property
    def calendar(self) -> Calendar:
        return self.history.calendar

    @property
    def checker(self) -> BlockChecker:
        return BlockChecker(source=self.source, calendar=self.calendar, clock=self.clock)

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
        """Return what the blocks of a message find, for the model; None where it has none.

        A target that is gone and a period that is none are said in it. Raises: SourceError.
        """
        blocks = blocks_of(message.segments)
        if not blocks:
            return None
        results = await self._results(blocks, graph_key, role, language, calendar, reference)
        head = load_phrases("turn", language)["data_added"].render({})
        return data_added(results, head, language)

    async def worded(
        self, message: UserMessage, graph_key: str, language: Language, calendar: Calendar | None
    ) -> UserMessage:
        """Return a stored message with its linear text made again; a target that is gone is said by its key.

        Raises: GraphNotFound.
        """
        blocks = blocks_of(message.segments)
        if not blocks:
            return message
        graph, said = await self.source.get_graph(graph_key), dict[str, str]()
        for block in blocks:
            name, _ = await self.checker.name(graph, block.target)
            name = cut_name(name or block.target.key, NAME_CHARS)
            said[block.id] = summary(block, name, language, calendar or self.calendar)
        return replace(message, content=linear_text(message.segments, said))

    def history_of(self, calendar: Calendar | None, reference: int | None) -> GraphHistory:
        """Return the history whose periods count by a calendar, from a moment."""
        return replace(self.history, calendar=calendar or self.calendar, reference=reference)

    async def preview(
        self, graph_key: str, blocks: Sequence[SentBlock], role: Role, language: Language
    ) -> list[BlockPreview]:
        """Return what each block says and weighs by itself. Raises: as `checked`."""
        check_blocks(blocks)
        resolved = with_instants(blocks, self.clock(), self.calendar)
        names = await self.checker.names(graph_key, resolved)
        made: list[BlockPreview] = []
        for block in resolved:
            results = await self._results([block], graph_key, role, language, None, None)
            said = summary(block, names[block.id], language, self.calendar)
            made.append(BlockPreview(id=block.id, summary=said, tokens=sum(one.tokens for one in results)))
        return made

    async def _results(
        self,
        blocks: Sequence[Block],
        graph_key: str,
        role: Role,
        language: Language,
        calendar: Calendar | None,
        reference: int | None,
    ) -> list[CommandResult]:
        calendar = calendar or self.calendar
        now = self.clock() if reference is None else reference
        context = ToolContext(
            source=self.source,
            graph_key=graph_key,
            role=role,
            language=language,
            history=self.history_of(calendar, now),
        )
        place = CommandPlace(context=context, box=self.box, zone=zone_of(calendar.timezone), clock=self.clock)
        cascades = [transform(commands(block), now, calendar) for block in blocks]
        return await execute(cascades, place, self.guard, budget=self.budget)
