"""Splits the text of a model into answer, thinking and calls by the marks of chat templates.

Servers that do not support a model's template leave these marks in the text: tags of thinking,
channels of gpt-oss and Gemma, marks of calls, ends of messages. In Markdown code they are kept, as
the answer is quoting them.

Sources: the chat templates and reasoning parsers published for DeepSeek, Qwen, GLM, Kimi, MiniMax,
Mistral, Seed, Gemma, Llama, Granite, Command and gpt-oss; Open WebUI's `<details
type="reasoning">`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

import regex

# `unthink`: a closing tag of thinking that was never opened, so all text before it was thinking.
Kind = Literal["text", "thinking", "call", "unthink"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTextLimits:
    """Limits of finding tool calls in the text of a model. Units: characters, unless named."""

    call_chars: int = 200_000
    """Longest text of a call: no tool takes longer arguments."""
    header_chars: int = 180
    """Longest header of a message of gpt-oss."""
    role_chars: int = 24
    """Longest name of a role."""
    blank_chars: int = 64
    """White space held back before a possible call."""
    unsure_chars: int = 4_000
    """Text held back that may still become a call."""
    max_calls: int = 64
    """Number of calls read from one text; far fewer are executed in a step."""
    search_s: float = 0.2
    """Seconds that one regular expression may search."""
    list_levels: int = 4
    """Nesting of calls in lists and objects of calls."""
    header_begun_chars: int = 4
    """Beginning of `Action` or `assistant` that is held back; shorter ones are common."""
    python_chars: int = 20_000
    """Longest arguments in the form of Python that are read."""
    described_chars: int = 20_000
    """Part of an answer that is searched for a call that it describes."""


CALL_TEXT_LIMITS: Final = CallTextLimits()

_I = regex.IGNORECASE | regex.VERBOSE
_PREFIX = r"(?:[a-z]{1,12}:)?"
_THINKING = r"""(?:think|thinking|thoughts?|reasoning|reflection|analysis|scratchpad|antthinking
    |inner_?monologue|inner_?thoughts|chain_of_thought)"""
_CALL_TAG = r"(?:[a-z]{1,12}[:_])?(?:tool|function)_?(?:calls?|use)"
_SECTION = r"tool[▁_\ ]?calls?(?:[▁_\ ]section)?"

_THINK = rf"""<{_PREFIX}{_THINKING}(?:\s[^<>\n]{{0,200}})?>
    | \[THINK\] | ◁think▷ | <\|(?:START_THINKING|begin_of_thought)\|>
    | (?P<details><details\s+type="reasoning"[^<>\n]{{0,200}}>)"""
_UNTHINK = (
    rf"</{_PREFIX}{_THINKING}\s*> | \[/THINK\] | ◁/think▷ | <\|(?:END_THINKING|end_of_thought)\|>"
)
_CALL = rf"""<(?P<tag>{_CALL_TAG})>
    | <(?P<dsml>[|｜]{{1,2}}\s*DSML\s*[|｜]{{1,2}}\s*\w{{0,40}})
    | <(?P<invoke>{_PREFIX}invoke)\s[^<>\n]{{1,200}}>
    | <(?P<function>function)(?:\s+name)?\s*=[^<>\n]{{1,200}}>
    | <[|｜](?P<section>{_SECTION})[▁_\ ](?:begin|start)[|｜]>
    | (?P<gemma><\|tool_call>) | (?P<function_gemma><start_function_call>)
    | (?P<action><\|(?:action_start|START_ACTION)\|>)
    | (?P<open><\|(?:tool_call|python_tag)\|>|\[TOOL_CALLS\])"""
_HEAD = r"""<\|(?:start|channel|im_start|start_header_id|start_of_role)\|>|<\|channel>|<channel\|>|<\|turn>
    |<start_of_turn>"""
_END = r"""</s>|<(?:end_of_turn|eos|bos|pad|unk|sop|eop|turn\||tool_call\||end_function_call)>
    |\[/?INST\]|\[gMASK\]|\[EOS\]|\[/TOOL_CALLS\]|<\|"\|>|<[|｜][\w/][^<>|｜\n]{2,38}[|｜]>"""
_MARK = regex.compile(
    rf"(?P<think>{_THINK})|(?P<unthink>{_UNTHINK})|(?P<call>{_CALL})|(?P<head>{_HEAD})|(?P<end>{_END})"
    rf"|(?P<code>`+|~{{3,}})|(?P<line>\n)",
    _I,
)
_CODE = regex.compile(r"(?P<code>`+|~{3,})|(?P<line>\n)")
_UNTHINKS = regex.compile(_UNTHINK, _I)
_CHANNEL_ENDS = regex.compile(r"<\|(?:end|call|return|start|channel)\|>", _I)
_ROLE = regex.compile(
    r"""\s*(?P<role>[a-z]{0,20})[^\S\n]*(?:<\|(?:end_header_id|end_of_role|im_middle|im_sep|message)\|>)?\n{0,2}""",
    _I,
)
_CHANNELS = ("<|start|>", "<|channel|>")
_OURS = ("", "assistant", "model", "bot", "ai", "gpt")
_FOREIGN_END = regex.compile(
    r"<(?:[|｜](?:user|observation|system|environment)[|｜])>|\[INST\]", _I
)
_WRAPPERS = regex.compile(r"</?(?:answer|final_answer|response)>\s*", _I)
# Also that of a quotation or a list item.
_LINE_START = regex.compile(r"[\s>*+\-]*(?:\d+[.)])?\s*")
_NEVER = regex.compile(r"(?!)")


@dataclass(slots=True)
class _Element:
    """A part whose closing mark is not reached yet. `opening`: shown if it is never closed.

    `keeps_end`: the closing mark also begins the next part.
    """

    kind: Kind
    closing: Any
    opening: str
    is_sure: bool = True
    keeps_end: bool = False
    body: list[str] = field(default_factory=list[str])
    size: int = 0

    def take(self, text: str) -> None:
        """Adds text inside the part; the text of a call is limited."""
        self.size += len(text)
        if self.kind != "call" or self.size <= CALL_TEXT_LIMITS.call_chars + len(text):
            self.body.append(text)


class MarkReader:
    """Splits a text that arrives in pieces of any size.

    A possible beginning of a mark is held back until it is decided. An opening tag of thinking
    within a line counts only if it is closed. At the beginning of a line, everything up to the end
    is thinking if it is not closed.
    """

    def __init__(self) -> None:
        self._held = ""
        self._line = ""  # the current line of the visible text
        self._fence = ""  # the characters that close the current code
        self._inline = False  # whether that code ends with its line
        self._element: _Element | None = None
        self._has_thought = self._is_over = False
        self._is_unclosed = False  # the rest of the text has no closing tag of thinking

    def feed(self, text: str, *, final: bool = False) -> list[tuple[Kind, str]]:
        """Reads a piece and returns the parts that are decided; all of them if it is the last
        piece.
        """
        self._held += text
        parts: list[tuple[Kind, str]] = []
        while self._held or (final and self._element):
            step = self._outside if self._element is None else self._inside
            if not step(parts, final=final):
                break
        return parts

    def _outside(self, parts: list[tuple[Kind, str]], *, final: bool) -> bool:
        """Reads visible text up to the next mark. Returns False if more text is needed."""
        if self._is_over:
            self._held = ""
            return False
        pattern = _CODE if self._fence else _MARK
        match = pattern.search(self._held, partial=not final)
        if match is None:
            self._show(self._held, parts)
            self._held = ""
            return False
        self._show(self._held[: match.start()], parts)
        mark = match.group()
        rest = self._held[match.end() :]
        self._held = self._held[match.start() :]
        may_go_on = match["code"] or match.groupdict().get("dsml")
        if match.partial or (may_go_on and not rest and not final):
            return False
        if match["code"] or match["line"]:
            self._held = rest
            self._show_code(mark, parts)
            return True
        return self._mark(match, mark, rest, parts, final=final)

    def _mark(
        self, match: Any, mark: str, rest: str, parts: list[tuple[Kind, str]], *, final: bool
    ) -> bool:
        if match["head"]:
            return self._head(mark.casefold(), rest, final=final)
        self._held = rest
        if match["unthink"]:
            self._has_thought = True
            parts.append(("unthink", ""))
            self._line = ""
        elif match["think"] and self._is_unclosed and self._line.strip():
            self._show(mark, parts)
        elif match["think"]:
            closing = regex.compile(r"</details\s*>", _I) if match["details"] else _UNTHINKS
            self._element = _Element("thinking", closing, mark, is_sure=not self._line.strip())
        elif match["call"]:
            self._element = _Element("call", _closing_of(match), mark)
        elif _FOREIGN_END.match(mark):
            self._is_over = bool(self._line or parts or self._has_thought)
        self._separate_marks(parts)
        return True

    def _head(self, mark: str, rest: str, *, final: bool) -> bool:
        """Reads the header of a message with its channel or role. Returns False if more text is
        needed.
        """
        is_channel = mark in _CHANNELS
        end = rest.casefold().find("<|message|>") if is_channel else -1
        line = rest.lstrip().partition("\n")
        is_settled = (
            final
            or end >= 0
            or bool(line[1])
            or len(rest)
            >= (CALL_TEXT_LIMITS.header_chars if is_channel else CALL_TEXT_LIMITS.role_chars)
        )
        if not is_settled:
            return False
        if is_channel and 0 <= end <= CALL_TEXT_LIMITS.header_chars:
            head = rest[:end]
            self._held = rest[end + len("<|message|>") :]
            self._open_channel(head)
            return True
        role = _ROLE.match(rest)
        word = role["role"].casefold() if role else ""
        if mark in ("<|channel>", "<channel|>"):
            is_thought = word in ("thought", "thoughts", "thinking", "analysis")
            is_named = mark == "<|channel>" and not is_thought
            self._held = (
                rest[role.end() :]
                if role and (is_thought or (is_named and word == "final"))
                else rest
            )
            if is_thought or (is_named and word not in ("final", "commentary")):
                closing = regex.compile(r"<channel\|>", _I)
                self._element = _Element("thinking", closing, "")
        elif word in _OURS and role is not None:
            self._held = rest[role.end() :]
        elif word in ("user", "human", "system", "tool", "developer", "ipython", "environment"):
            self._is_over, self._held = True, ""
        else:
            self._held = rest
        return True

    def _open_channel(self, head: str) -> None:
        """Begins a message of gpt-oss by its header, as `commentary to=functions.NAME
        <|constrain|>json`.
        """
        words = regex.sub(r"<\|[^<>|]{0,38}\|>", " ", head)
        if (receiver := regex.search(r"\bto=[\w.]+", words)) is not None:
            self._element = _Element(
                "call", _CHANNEL_ENDS, f"{receiver.group()} json", keeps_end=True
            )
        elif "analysis" in words.casefold():
            self._element = _Element("thinking", _CHANNEL_ENDS, "", keeps_end=True)
        else:
            self._line = ""

    def _inside(self, parts: list[tuple[Kind, str]], *, final: bool) -> bool:
        """Reads up to the closing mark. Returns False if more text is needed."""
        element = self._element
        assert element is not None
        match = element.closing.search(self._held, partial=not final)
        if match is not None and not match.partial:
            is_kept = element.keeps_end and match.group().casefold() in _CHANNELS
            element.take(self._held[: match.start()])
            if element.kind == "call" and not is_kept:
                element.take(match.group())
            self._held = self._held[match.start() if is_kept else match.end() :]
            self._close(element, parts)
            return True
        end = match.start() if match is not None else len(self._held)
        element.take(self._held[:end])
        self._held = self._held[end:]
        if not final:
            if element.kind == "thinking" and element.is_sure:
                parts.extend((element.kind, text) for text in element.body if text)
                element.body.clear()
            return False
        if element.is_sure:
            self._close(element, parts)
            return True
        self._element, self._is_unclosed = None, True
        self._show(element.opening, parts)
        self._held = "".join(element.body)
        return True

    def _close(self, element: _Element, parts: list[tuple[Kind, str]]) -> None:
        self._element, body = None, "".join(element.body)
        if element.kind == "thinking":
            self._has_thought = True
            if body:
                parts.append(("thinking", body))
        else:
            parts.append(("call", element.opening + body))
        self._separate_marks(parts)

    def _show(self, text: str, parts: list[tuple[Kind, str]]) -> None:
        if self._has_thought and not self._fence:
            text = _WRAPPERS.sub("", text)
        if text:
            parts.append(("text", text))
            self._line = (self._line + text).rpartition("\n")[2][-200:]

    def _separate_marks(self, parts: list[tuple[Kind, str]]) -> None:
        """Shows a space in place of a removed mark if the texts around it would otherwise form a
        new mark.
        """
        start = max(self._line.rfind("<"), self._line.rfind("["))
        if start >= 0 and not self._fence and _MARK.match(self._line, start, partial=True):
            self._show(" ", parts)

    def _show_code(self, mark: str, parts: list[tuple[Kind, str]]) -> None:
        """Shows a line break or a mark of code, and tracks where code begins and ends."""
        if mark == "\n":
            if self._inline:
                self._fence, self._inline = "", False
        elif not self._fence:
            if len(mark) >= 3 and _LINE_START.fullmatch(self._line):
                self._fence = mark
                self._inline = False
            elif mark[0] == "`":
                self._fence = mark
                self._inline = True
        elif self._inline:
            if mark == self._fence:
                self._fence, self._inline = "", False
        elif mark.startswith(self._fence) and not self._line.strip():
            self._fence = ""
        self._show(mark, parts)


def _closing_of(match: Any) -> Any:
    """Returns the pattern of the mark that closes a call."""
    for name in ("tag", "dsml", "invoke", "function"):
        if match[name]:
            return regex.compile(
                rf"</\s*{regex.escape(match[name], special_only=True)}\s*>", regex.IGNORECASE
            )
    if match["section"]:
        section = regex.sub(r"[▁_ ]", "[▁_ ]", match["section"])
        return regex.compile(rf"<[|｜]{section}[▁_ ]end[|｜]>", regex.IGNORECASE)
    if match["gemma"]:
        return regex.compile(r"<tool_call\|>", regex.IGNORECASE)
    if match["function_gemma"]:
        return regex.compile(r"<end_function_call>", regex.IGNORECASE)
    if match["action"]:
        return regex.compile(r"<\|(?:action_end|END_ACTION)\|>", regex.IGNORECASE)
    return _NEVER
