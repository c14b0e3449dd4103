"""Splits the text of a model into answer, thinking and written calls by the
marks of chat templates.

Servers that do not know a model's template pass these marks on as text: thinking between tags, the
channels of gpt-oss and Gemma, calls between marks, the ends of messages. Within Markdown code they
are shown as they are: there an answer speaks about them.

Sources: the chat templates and reasoning parsers published for DeepSeek, Qwen, GLM,
Kimi, MiniMax, Mistral, Seed, Gemma, Llama, Granite, Command and gpt-oss; Open
WebUI's `<details type="reasoning">`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

import regex

Kind = Literal["text", "thinking", "call", "unthink"]
"""`unthink`: a closing tag without an opening one, so that all text before it was thinking."""


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
# of a quotation, or an item of a list, too
_LINE_START = regex.compile(r"[\s>*+\-]*(?:\d+[.)])?\s*")
_NEVER = regex.compile(r"(?!)")


@dataclass(slots=True)
class _Element:
    """What is open: its kind, what closes it, and what is shown of it where nothing does.

    `keeps_end`: the closing mark begins what follows.
    """

    kind: Kind
    closing: Any
    opening: str
    is_sure: bool = True
    keeps_end: bool = False
    body: list[str] = field(default_factory=list[str])
    size: int = 0

    def take(self, text: str) -> None:
        """Adds what stands inside; of a call no more than a call may have."""
        self.size += len(text)
        if self.kind != "call" or self.size <= CALL_TEXT_LIMITS.call_chars + len(text):
            self.body.append(text)


class MarkReader:
    """Splits a text that comes in pieces, however they are cut.

    What may be the beginning of a mark is held until it is known. An opening tag of thinking within
    a line counts only where a closing one follows; at the beginning of a line all the rest is
    thinking without one.
    """

    def __init__(self) -> None:
        self._held = ""
        self._line = ""  # of what is shown, the line under way
        self._fence = ""  # the run of characters that closes the code under way
        self._inline = False  # whether that code ends with its line
        self._element: _Element | None = None
        self._has_thought = self._is_over = False
        self._is_unclosed = False  # the text is known to its end, and no tag closes thinking in it

    def feed(self, text: str, *, final: bool = False) -> list[tuple[Kind, str]]:
        """Takes a piece and returns the parts that are sure by now; all of them where it
        is the last.
        """
        self._held += text
        parts: list[tuple[Kind, str]] = []
        while self._held or (final and self._element):
            step = self._outside if self._element is None else self._inside
            if not step(parts, final=final):
                break
        return parts

    def _outside(self, parts: list[tuple[Kind, str]], *, final: bool) -> bool:
        """Shows what stands before the next mark; returns False where more text is needed."""
        if self._is_over:
            self._held = ""
            return False
        pattern = _CODE if self._fence else _MARK
        found = pattern.search(self._held, partial=not final)
        if found is None:
            self._show(self._held, parts)
            self._held = ""
            return False
        self._show(self._held[: found.start()], parts)
        mark = found.group()
        rest = self._held[found.end() :]
        self._held = self._held[found.start() :]
        may_go_on = found["code"] or found.groupdict().get("dsml")
        if found.partial or (may_go_on and not rest and not final):
            return False
        if found["code"] or found["line"]:
            self._held = rest
            self._show_code(mark, parts)
            return True
        return self._mark(found, mark, rest, parts, final=final)

    def _mark(
        self, found: Any, mark: str, rest: str, parts: list[tuple[Kind, str]], *, final: bool
    ) -> bool:
        if found["head"]:
            return self._head(mark.casefold(), rest, final=final)
        self._held = rest
        if found["unthink"]:
            self._has_thought = True
            parts.append(("unthink", ""))
            self._line = ""
        elif found["think"] and self._is_unclosed and self._line.strip():
            self._show(mark, parts)
        elif found["think"]:
            closing = regex.compile(r"</details\s*>", _I) if found["details"] else _UNTHINKS
            self._element = _Element("thinking", closing, mark, is_sure=not self._line.strip())
        elif found["call"]:
            self._element = _Element("call", _closing_of(found), mark)
        elif _FOREIGN_END.match(mark):
            self._is_over = bool(self._line or parts or self._has_thought)
        self._part_marks(parts)
        return True

    def _head(self, mark: str, rest: str, *, final: bool) -> bool:
        """Reads the header of a message: its channel, or whose it is. Returns False where
        more is needed.
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
        """Opens a message of gpt-oss by its header, as `commentary to=functions.NAME
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
        """Takes what stands before the closing mark; returns False where more text is needed."""
        element = self._element
        assert element is not None
        found = element.closing.search(self._held, partial=not final)
        if found is not None and not found.partial:
            is_kept = element.keeps_end and found.group().casefold() in _CHANNELS
            element.take(self._held[: found.start()])
            if element.kind == "call" and not is_kept:
                element.take(found.group())
            self._held = self._held[found.start() if is_kept else found.end() :]
            self._close(element, parts)
            return True
        kept = found.start() if found is not None else len(self._held)
        element.take(self._held[:kept])
        self._held = self._held[kept:]
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
        self._part_marks(parts)

    def _show(self, text: str, parts: list[tuple[Kind, str]]) -> None:
        if self._has_thought and not self._fence:
            text = _WRAPPERS.sub("", text)
        if text:
            parts.append(("text", text))
            self._line = (self._line + text).rpartition("\n")[2][-200:]

    def _part_marks(self, parts: list[tuple[Kind, str]]) -> None:
        """Shows a space where what was taken out stood within a mark: the rest must not
        join to one.
        """
        start = max(self._line.rfind("<"), self._line.rfind("["))
        if start >= 0 and not self._fence and _MARK.match(self._line, start, partial=True):
            self._show(" ", parts)

    def _show_code(self, mark: str, parts: list[tuple[Kind, str]]) -> None:
        """Shows a line break or the marks of code, and notes what code begins or ends with it."""
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


def _closing_of(found: Any) -> Any:
    """Returns what closes the call that a mark opens."""
    for name in ("tag", "dsml", "invoke", "function"):
        if found[name]:
            return regex.compile(
                rf"</\s*{regex.escape(found[name], special_only=True)}\s*>", regex.IGNORECASE
            )
    if found["section"]:
        section = regex.sub(r"[▁_ ]", "[▁_ ]", found["section"])
        return regex.compile(rf"<[|｜]{section}[▁_ ]end[|｜]>", regex.IGNORECASE)
    if found["gemma"]:
        return regex.compile(r"<tool_call\|>", regex.IGNORECASE)
    if found["function_gemma"]:
        return regex.compile(r"<end_function_call>", regex.IGNORECASE)
    if found["action"]:
        return regex.compile(r"<\|(?:action_end|END_ACTION)\|>", regex.IGNORECASE)
    return _NEVER
