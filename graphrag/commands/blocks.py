"""Blocks of a message: references to what a person points at, uses, creates or configures.

A block is stored in the message's `segments`, at its place among the words. Its summary is one
line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self, final

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from graphrag.commands.graph_history import iso
from graphrag.i18n import Language, LocalizedError, text
from graphrag.sessions.periods import Calendar, PeriodError, Span, is_relative, resolve
from graphrag.sessions.schedules import zone_of

MAX_BLOCKS = 10
MAX_ID_CHARS = 64

BlockType = Literal["POINTER", "USE", "CREATE", "MODIFY_CONFIG"]
TargetKind = Literal["graph", "sheet", "node", "edge", "nodeType"]
# The kinds of targets of each type of block.
TARGETS: Mapping[BlockType, tuple[TargetKind, ...]] = {
    "POINTER": ("graph", "sheet", "node", "edge", "nodeType"),
    "USE": ("node",),
    "CREATE": ("nodeType",),
    "MODIFY_CONFIG": ("nodeType", "node"),
}


@final
class BlockRefused(LocalizedError):
    """A block cannot be used. `number` counts from 1; `why` is the name of the text, whose values
    are the other arguments.
    """

    def __init__(self, *, number: int, why: str, **facts: Any) -> None:
        self.number = number
        self.code = f"block_{why}"
        super().__init__(number=number, **facts)


@final
class TooManyBlocks(LocalizedError):
    """A message has more blocks than allowed."""

    def __init__(self, *, found: int) -> None:
        super().__init__(found=found, limit=MAX_BLOCKS)


class _BlockForm(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=to_camel, populate_by_name=True
    )


End = Annotated[str, Field(min_length=1, max_length=40)]


@final
class Period(_BlockForm):
    """From the beginning of one unit or instant to the end of another; see `sessions.periods`."""

    start: Annotated[End, Field(alias="from")]
    end: Annotated[End, Field(alias="to")]

    @property
    def is_relative(self) -> bool:
        return is_relative(self.start) or is_relative(self.end)


@final
class Target(_BlockForm):
    kind: TargetKind
    key: Annotated[str, Field(min_length=1, max_length=400)]


class Block(_BlockForm):
    """One block. `id` is unique in its message."""

    id: Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
    type: BlockType
    target: Target
    period: Period | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        allowed = TARGETS[self.type]
        if self.target.kind not in allowed:
            raise ValueError(
                f"a {self.type} block is about: {', '.join(allowed)}; not {self.target.kind}"
            )
        return self

    def to_document(self) -> dict[str, Any]:
        """Returns the stored form."""
        return self.model_dump(by_alias=True, exclude_none=True, exclude={"at"})


@final
class SentBlock(Block):
    """A block as a client sends it. `at`: its position in the message in characters, by default the
    end.
    """

    at: Annotated[int | None, Field(ge=0, le=1_000_000)] = None


def blocks_of(segments: Sequence[Mapping[str, Any]]) -> list[Block]:
    """Returns the blocks of a stored message, in order. Raises: ValidationError."""
    return [Block.model_validate(segment["block"]) for segment in segments if "block" in segment]


def words_of(content: str, segments: Sequence[Mapping[str, Any]]) -> str:
    """Returns the text that a person wrote, without the blocks."""
    return "".join(str(part.get("text", "")) for part in segments) if segments else content


def check_blocks(blocks: Sequence[SentBlock]) -> None:
    """Raises: TooManyBlocks, BlockRefused (for a repeated id)."""
    if len(blocks) > MAX_BLOCKS:
        raise TooManyBlocks(found=len(blocks))
    seen: set[str] = set()
    for number, block in enumerate(blocks, start=1):
        if block.id in seen:
            raise BlockRefused(number=number, why="id_twice", id=block.id)
        seen.add(block.id)


def with_instants(
    blocks: Sequence[SentBlock], reference: int, calendar: Calendar
) -> list[SentBlock]:
    """Returns the blocks with their periods as instants. Raises: BlockRefused.

    Units: `reference` in milliseconds since 1970.
    """
    zone = zone_of(calendar.timezone)
    made: list[SentBlock] = []
    for number, block in enumerate(blocks, start=1):
        if block.period is None:
            made.append(block)
            continue
        span = _span(block.period, reference, calendar, number)
        period = Period(start=iso(span.start, zone), end=iso(span.end, zone))
        made.append(block.model_copy(update={"period": period}))
    return made


def _span(period: Period, reference: int, calendar: Calendar, number: int) -> Span:
    try:
        return resolve(period.start, period.end, reference, calendar)
    except PeriodError as exc:
        facts = {"part": exc.part, "value": exc.value}
        raise BlockRefused(number=number, why=f"period_{exc.reason}", **facts) from exc


def summary(block: Block, name: str, language: Language, calendar: Calendar) -> str:
    """Returns a block in one line, as “uses Check amount, 1–7 Nov”. `name`: the name of
    its target.
    """
    said = text(f"block_{block.type}", language, what=name)
    if block.period is None:
        return said
    return f"{said}, {period_words(block.period, language, calendar)}"


def period_words(period: Period, language: Language, calendar: Calendar) -> str:
    """Returns a period in words: days if it consists of whole days, else times; relative ones as
    written.
    """
    if period.is_relative:
        return text("period_relative", language, start=period.start, end=period.end)
    zone = zone_of(calendar.timezone)
    start, end = (
        datetime.fromisoformat(part).astimezone(zone) for part in (period.start, period.end)
    )
    if not (_is_day(start, calendar) and _is_day(end, calendar)) or start >= end:
        return f"{_time(start, language)} – {_time(end, language)}"
    last = datetime.fromtimestamp(end.timestamp() - 1, zone)
    if calendar.day_start_hour:
        last = datetime.fromtimestamp(last.timestamp() - calendar.day_start_hour * 3_600, zone)
    if last.date() <= start.date():
        return _day(start, language)
    same = (last.year, last.month) == (start.year, start.month)
    return f"{start.day if same else _day(start, language)}–{_day(last, language)}"


def _is_day(at: datetime, calendar: Calendar) -> bool:
    return (at.hour, at.minute, at.second, at.microsecond) == (calendar.day_start_hour, 0, 0, 0)


def _day(at: datetime, language: Language) -> str:
    return f"{at.day} {text(f'month_short_{at.month}', language)} {at.year}"


def _time(at: datetime, language: Language) -> str:
    return f"{_day(at, language)} {at:%H:%M}"


def segments_of(
    words: str, blocks: Sequence[SentBlock], summaries: Mapping[str, str]
) -> tuple[str, tuple[dict[str, Any], ...]]:
    """Returns a message with blocks as linear text and as segments, with each block at its
    position.
    """
    parts: list[dict[str, Any]] = []
    done = 0
    for block in sorted(blocks, key=lambda block: len(words) if block.at is None else block.at):
        at = len(words) if block.at is None else min(block.at, len(words))
        if at > done:
            parts.append({"text": words[done:at]})
        done = max(done, at)
        parts.append({"block": block.to_document()})
    if done < len(words):
        parts.append({"text": words[done:]})
    return linear_text(parts, summaries), tuple(parts)


def linear_text(segments: Sequence[Mapping[str, Any]], summaries: Mapping[str, str]) -> str:
    """Returns the words of segments, with the summary of each block in square brackets."""
    said, after_block = "", False
    for part in segments:
        shown = (
            f"[{summaries[part['block']['id']]}]" if "block" in part else str(part.get("text", ""))
        )
        apart = (
            ("block" in part or after_block)
            and said
            and not said[-1].isspace()
            and shown[:1].strip()
        )
        said += f"{' ' if apart else ''}{shown}"
        after_block = "block" in part
    return said
