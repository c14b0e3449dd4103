"""Reads tool calls that a model wrote as text, in the forms of chat templates and models.

A call counts only if it names a known tool and the text contains nothing but calls.

Sources: the chat templates and tool parsers published for Qwen, Llama, Mistral, DeepSeek, Kimi,
GLM, Gemma, MiniMax, Granite, LFM2, Command and gpt-oss.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import regex

from graphrag.llm.text_marks import CALL_TEXT_LIMITS
from tools import lenient_json
from tools.arguments import ARGUMENT_LIMITS, is_deeper

_NAMES = ("name", "tool", "tool_name", "function_name", "function", "action", "recipient_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "action_input", "kwargs", "params")
_BEFORE = ("type", "id", "index", "tool_call_id")
_TYPES = ("function", "tool_use", "tool_call", "function_call")
_PREFIXES = ("functions.", "function.", "default_api.", "tools.")

_I = regex.IGNORECASE | regex.VERBOSE | regex.DOTALL
_OPENING_MARK = r"""[*#_\s]*(?:function|tool)[ _]calls?\b[*_]*[ \t]*:?[*_]*\s*  # a heading
    |\s*```[ \t]*(?:json|tool_calls?|tool_code|tool|function|xml|python)?[ \t]*(?:\n|$|(?=[{\[<]))
    |\s*<tools>"""
_OPENINGS = regex.compile(rf"(?:{_OPENING_MARK})*\s*", _I)
_WRAPPERS = r"""</?(?:\w{1,12}[:_])?(?:tool|function)_?(?:calls?|use)(?:_start|_end)?>|</?tools>
    |<(?:start|end)_function_call>|<\|tool_call>|<tool_call\|>|</?\|?/?tool_call\|?>
    |</?[|｜]{1,2}\s*DSML\s*[|｜]{1,2}\s*(?:tool_calls?|function_calls?|calls?)>
    |<[|｜][\w/][^<>|｜\n]{1,38}[|｜]>|</s>
    |\[/?TOOL_CALLS\]|\[ARGS\]|\[CALL_ID\]\w*|(?:</?function>)"""
_MARKS = regex.compile(
    rf"(?:[\s,;]++|{_WRAPPERS}|{_OPENING_MARK}|```|\[(?=\s*[A-Za-z_]\w*\()|\](?=\s*(?:```|$|<)))*",
    _I,
)
_FIELD = regex.compile(r"""[\s\[{]*["'](\w{1,40})["']\s*:\s*(?:["'](\w*)["'])?""")
_PARTIAL_FIELD = regex.compile(r"""[\s\[{]*(?:["']\w*["']?\s*:?\s*)?""")
_NAME = r"(?:functions?\.|default_api\.|tools\.)?(?P<name>[A-Za-z_]\w{0,80})"
_CALLED = regex.compile(
    rf"\s*\[?\s*(?:call:|Action:\s*|✿FUNCTION✿:\s*)?{_NAME}(?:\.call|\[ARGS\]|\[CALL_ID\]\w*\[ARGS\]|:\d+)?\s*(?=[({{])"
)
_NAMED = regex.compile(rf"""["'](?:{"|".join(_NAMES)})["']\s*:\s*["'](?:functions\.)?(\w+)["']""")
_TOOL_NAME = regex.compile(r"[A-Za-z_][\w.-]{0,90}")
# The beginning of a call of any tool, with its name first.
_UNKNOWN = regex.compile(
    rf"""\s*(?:\[\s*)?\{{\s*(?:"(?:{"|".join(_BEFORE)})"\s*:\s*(?:"[^"]{{0,90}}"|\d{{1,9}})\s*,\s*)*
    (?:"function"\s*:\s*\{{\s*)?"(?:{"|".join(_NAMES)})"\s*:\s*"[A-Za-z_][\w.-]{{0,90}}"\s*,
    \s*"(?:{"|".join(_ARGUMENTS)})"\s*:\s*["{{]""",
    regex.VERBOSE,
)
_LABELS = ("function call", "tool call", "function_call", "tool_call", "<tools>", "```")
_MARKED = regex.compile(
    r"<(?:\w{1,12}:)?(?:tool_?calls?|function_?calls?|invoke\s|function=)|<[|｜]|\[TOOL_CALLS\]", _I
)
_RECIPIENT = r"(?:assistant|commentary|analysis)*\s*to=(?:functions\.)?(?P<name>[A-Za-z_]\w{0,80})"

_DSML = r"(?:[|｜]{1,2}\s*DSML\s*[|｜]{1,2}\s*|\w{1,12}:)?"
_ELEMENTS = (
    # <invoke name="x"><parameter name="k">v</parameter></invoke>, also with a
    # prefix; <function name="x">
    regex.compile(
        rf"""<(?P<p>{_DSML})(?P<t>invoke|function|tool)\s+name\s*=\s*["'](?P<name>[\w.]{{1,90}})["'][^<>]*>
        (?P<body>.*?)</(?:{_DSML})(?P=t)>""",
        _I,
    ),
    # <function=x><parameter=k>v</parameter></function>, or with JSON inside
    regex.compile(
        r"<function\s*=\s*[\"']?(?P<name>[\w.]{1,90})[\"']?>(?P<body>.*?)</function>", _I
    ),
    # x<arg_key>k</arg_key><arg_value>v</arg_value>
    regex.compile(
        r"""(?P<name>[A-Za-z_]\w{0,80})\s*(?:<tool_sep>)?\s*
        (?P<body>(?:<arg_key>.*?</arg_key>\s*<arg_value>.*?</arg_value>\s*)+)""",
        _I,
    ),
    # <name>x</name><arguments>{…}</arguments>
    regex.compile(
        r"""<(?P<n>name|tool_name)>\s*(?P<name>[\w.]{1,90})\s*</(?P=n)>\s*
        <(?P<a>arguments|parameters|args|input)>(?P<body>.*?)</(?P=a)>""",
        _I,
    ),
)
_PARAMETERS = regex.compile(
    rf"""<(?:{_DSML})(?:parameter|param|arg)(?:\s+name)?\s*=\s*["']?(?P<key>[\w.-]{{1,90}})["']?[^<>]*>
        (?P<value>.*?)</(?:{_DSML})(?:parameter|param|arg)>
    |<arg_key>\s*(?P<key>.*?)\s*</arg_key>\s*<arg_value>(?P<value>.*?)</arg_value>""",
    _I,
)
_HEADERS = (
    # gpt-oss: the receiver stands in the header, before or after the channel
    regex.compile(
        rf"(?:<\|(?:start|channel)\|>)?\s*{_RECIPIENT}[^{{\n]{{0,120}}?(?:<\|message\|>|json)?\s*(?={{)",
        _I,
    ),
    # Kimi: functions.x:0<|tool_call_argument_begin|>{…}
    regex.compile(rf"{_NAME}(?::\d+)?\s*<\|tool_call_argument_begin\|>\s*", _I),
    # DeepSeek: function<｜tool▁sep｜>x and a block of code, or x<｜tool▁sep｜>{…}
    regex.compile(
        rf"(?:function)?\s*<[|｜]tool[▁_\ ]sep[|｜]>\s*{_NAME}\s*(?:```(?:json)?\s*)?(?={{)", _I
    ),
    regex.compile(rf"{_NAME}\s*<[|｜]tool[▁_\ ]sep[|｜]>\s*(?:```(?:json)?\s*)?(?={{)", _I),
    # ReAct: Action: x, Action Input: {…}; Qwen-Agent: ✿FUNCTION✿: x, ✿ARGS✿: {…}
    regex.compile(rf"(?:Action|✿FUNCTION✿):\s*{_NAME}\s*(?:Action\ Input|✿ARGS✿):\s*", _I),
)
# The beginning of a line with a call in the last two of these forms, or in that of gpt-oss without
# its marks.
_LINE_HEADER = regex.compile(
    r"""(?:(?:assistant|commentary|analysis)*\ ?to=functions\.|Action:\s*|✿FUNCTION✿:\s*)
    (?P<name>[A-Za-z_]\w{0,80})(?=\W)""",
    _I,
)
_DOUBLED_BRACE = regex.compile(r"\{\s*(?=\{\s*[\"'])")
# The chat template of Qwen2.5-Coder shows a call as `{{"name": …}}`. Its models write that, with
# more closing braces than opening ones.
_CLOSING_BRACES = regex.compile(r"[\s}]+")
_QUOTED = regex.compile(r"<\|\"\|>(.*?)<\|\"\|>|<escape>(.*?)<escape>", regex.DOTALL)


_BLOCK = regex.compile(
    r"^[ \t]*```[ \t]*\w*[ \t]*\n(?P<body>.*?)(?:\n[ \t]*```|\Z)", regex.MULTILINE | regex.DOTALL
)
_TOOL_WORD = regex.compile(r"(?<![\w.])[A-Za-z_]\w{0,80}")


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call in a text. `arguments`: JSON as the model wrote it."""

    name: str
    arguments: str


def may_be_call(text: str, tools: Collection[str], *, is_whole: bool = False) -> bool | None:
    """Returns whether the beginning of a text is a call of one of the tools; None: more text is
    needed.

    `is_whole`: the text is the beginning of the answer, so it may also be a call of an unknown
    tool.
    """
    opening = _OPENINGS.match(text)
    is_marked = opening is not None and bool(opening.group().strip())
    body = text[opening.end() :] if opening else text
    if not body:
        return None
    if is_marked and body[0] in "<[" and (marked := _MARKED.match(body, partial=True)) is not None:
        if not marked.partial and any(name in body for name in tools):
            return True
        return None if len(body) < CALL_TEXT_LIMITS.unsure_chars else False
    called = _CALLED.match(body)
    if called is not None:
        return called["name"] in tools
    if body[0] in "{[":
        verdict = _object_may_be_call(body, tools)
        is_open = verdict is False and is_whole and _UNKNOWN.match(body, partial=True) is not None
        return None if is_open and len(body) < CALL_TEXT_LIMITS.unsure_chars else verdict
    plain = body.strip("*#_ ").casefold()
    if len(body) < 40 and any(
        label.startswith(plain) or plain.startswith(label) for label in _LABELS
    ):
        return None
    header = (
        _LINE_HEADER.match(body, partial=True)
        if len(body) >= CALL_TEXT_LIMITS.header_begun_chars
        else None
    )
    if header is not None:
        return None if header.partial else header["name"] in tools
    return (
        None
        if regex.fullmatch(r"\w+", body) and any(name.startswith(body) for name in tools)
        else False
    )


def _object_may_be_call(body: str, tools: Collection[str]) -> bool | None:
    """Decides by the first field if it names the tool or no call has it, else by any name in the
    object.
    """
    field = _FIELD.match(body)
    name = regex.fullmatch(r"\[\s*(\w*)", body)
    if name is not None and any(tool.startswith(name[1]) for tool in tools):
        return None
    if field is None:
        return None if len(body) < 60 and _PARTIAL_FIELD.fullmatch(body) else False
    first, value = field.groups()
    if first == "tool_calls":
        first, value = "arguments", None
    if first not in (*_NAMES, *_ARGUMENTS, *_BEFORE) or (
        first == "type" and value not in (None, *_TYPES)
    ):
        return False
    names: list[str] = [name for name in _NAMED.findall(body) if name != "function"]
    if first in _ARGUMENTS or not names:
        return (
            True
            if set(names) & set(tools)
            else None
            if len(body) < CALL_TEXT_LIMITS.unsure_chars
            else False
        )
    return names[0] in tools


def read_unknown_calls(text: str) -> list[WrittenCall]:
    """Returns the calls that a whole answer consists of, of any tools; empty if it contains
    anything else.

    An object with only a name and arguments is a call. The JSON schema of a function is not.
    """
    value, rest = _first_value(_MARKS.sub("", text, count=1))
    candidates: list[Any] = cast(list[Any], value) if isinstance(value, list) else [value]
    if _MARKS.sub("", rest, count=1) or not 0 < len(candidates) <= CALL_TEXT_LIMITS.max_calls:
        return []
    calls = [_unknown_call(one) for one in candidates]
    return [call for call in calls if call is not None] if None not in calls else []


def _unknown_call(value: Any) -> WrittenCall | None:
    if not isinstance(value, Mapping):
        return None
    fields = cast(Mapping[str, Any], value)
    if isinstance(inner := fields.get("function"), Mapping):
        fields = cast(Mapping[str, Any], inner)
    names = [key for key in _NAMES if key in fields]
    argument_keys = [key for key in _ARGUMENTS if key in fields]
    if (
        len(names) != 1
        or len(argument_keys) != 1
        or fields.keys() - {*names, *argument_keys, *_BEFORE}
    ):
        return None
    name = fields[names[0]]
    arguments = fields[argument_keys[0]]
    if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
        return None
    if isinstance(arguments, str):
        is_object = isinstance(_first_value(arguments)[0], Mapping)
    else:
        is_object = isinstance(arguments, Mapping) and "properties" not in arguments
    return WrittenCall(_plain_name(name), _text_of(arguments)) if is_object else None


def read_described_calls(text: str, tools: Collection[str]) -> list[WrittenCall]:
    """Returns the calls that an answer shows in a code block, within an explanation.

    A block contains complete calls, or the arguments of the only tool that the text before it
    names. Several blocks count only if they are the same; otherwise they may be alternatives.
    """
    searched = text[: CALL_TEXT_LIMITS.described_chars]
    readings: dict[tuple[WrittenCall, ...], None] = {}
    end = 0
    for block in _BLOCK.finditer(searched):
        before = searched[end : block.start()]
        end = block.end()
        if calls := _described_in(block["body"], before, tools):
            readings[calls] = None
    return list(next(iter(readings))) if len(readings) == 1 else []


def _described_in(body: str, before: str, tools: Collection[str]) -> tuple[WrittenCall, ...]:
    if calls := read_calls(body, tools):
        return tuple(calls)
    value, rest = _first_value(body.strip())
    named = set(_TOOL_WORD.findall(before)) & set(tools)
    if not isinstance(value, Mapping) or rest.strip() or len(named) != 1:
        return ()
    return (WrittenCall(named.pop(), _text_of(value)),)


def read_calls(text: str, tools: Collection[str]) -> list[WrittenCall]:
    """Returns the calls that a text consists of; empty if it contains anything else."""
    calls: list[WrittenCall] = []
    rest = text
    while (rest := _MARKS.sub("", rest, count=1)) and len(calls) < CALL_TEXT_LIMITS.max_calls:
        first, rest = _first_calls(rest, tools)
        if not first:
            return []
        calls += first
    return calls


def _first_calls(text: str, tools: Collection[str]) -> tuple[list[WrittenCall], str]:
    """Returns the calls of the first matching form at the beginning of the text, and the rest."""
    for pattern in _ELEMENTS:
        match = pattern.match(text)
        if match is not None and (name := _plain_name(match["name"])) in tools:
            return [WrittenCall(name, _inner_arguments(match["body"]))], text[match.end() :]
    for pattern in _HEADERS:
        match = pattern.match(text)
        if match is not None and match["name"] in tools:
            value, rest = _first_value(text[match.end() :])
            return ([] if value is None else [WrittenCall(match["name"], _text_of(value))]), rest
    called = _CALLED.match(text)
    if called is None or called["name"] not in tools:
        value, rest = _first_value(text)
        return list(_calls_in(value, tools)), rest
    rest = text[called.end() :]
    if rest.startswith("("):
        return _python_call(called["name"], rest)
    value, rest = _first_value(_with_quotes(rest))
    return [WrittenCall(called["name"], _text_of(value))], rest


def _python_call(name: str, text: str) -> tuple[list[WrittenCall], str]:
    """Returns a call in Python syntax, and the rest. `text` begins with the opening bracket."""
    if text[1:].lstrip().startswith("{"):
        value, rest = _first_value(text[1:])
        return [WrittenCall(name, _text_of(value))], rest.lstrip().removeprefix(")")
    end = _closing_bracket(text)
    inside = text[1:end]
    rest = text[end + 1 :]
    # If it is not valid Python, it is converted to JSON by this simple rule.
    fields = regex.sub(r"(?:^|(?<=,))\s*(\w+)\s*=", r'"\1":', inside)
    arguments = f"{{{fields}}}"
    if len(inside) <= CALL_TEXT_LIMITS.python_chars:
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            call = ast.parse(f"f({inside})", mode="eval").body
            assert isinstance(call, ast.Call)
            if not call.args and all(part.arg for part in call.keywords):
                values = {str(part.arg): ast.literal_eval(part.value) for part in call.keywords}
                arguments = json.dumps(values, ensure_ascii=False)
    return [WrittenCall(name, arguments)], rest


def _closing_bracket(text: str) -> int:
    """Returns the index of the bracket that closes the first one, ignoring quoted texts."""
    depth, quote, index = 0, "", 0
    while index < len(text):
        char = text[index]
        if quote:
            index += char == "\\"
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        else:
            depth += (char == "(") - (char == ")")
            if not depth:
                return index
        index += 1
    return len(text)


def _inner_arguments(body: str) -> str:
    """Returns the arguments in an element, given as parameters or as JSON."""
    parameters: dict[str, str] = {}
    with suppress(TimeoutError):  # thousands of unclosed parameters
        matches = _PARAMETERS.finditer(body, timeout=CALL_TEXT_LIMITS.search_s)
        parameters = {match["key"]: _trimmed(match["value"]) for match in matches}
    if parameters or not body.strip():
        return json.dumps(parameters, ensure_ascii=False)
    return body.strip()


def _trimmed(value: str) -> str:
    """Returns a parameter's text without the line breaks around it."""
    return regex.sub(r"\A\r?\n|\r?\n\Z", "", value)


def _with_quotes(text: str) -> str:
    """Returns a text with Gemma's quotation marks replaced by those of JSON."""
    return _QUOTED.sub(
        lambda match: json.dumps(match[1] or match[2] or "", ensure_ascii=False), text
    )


def _plain_name(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def _first_value(text: str) -> tuple[Any, str]:
    """Returns the JSON value at the beginning of a text, with small mistakes repaired, and the
    rest.
    """
    doubled = _DOUBLED_BRACE.match(text)
    if doubled is not None:
        value, rest = _first_value(text[doubled.end() :])
        return value, _CLOSING_BRACES.sub("", rest, count=1) if _CLOSING_BRACES.match(
            rest
        ) else rest
    try:
        value, end = json.JSONDecoder().raw_decode(text)
        return value, text[end:]
    except (ValueError, RecursionError):
        body = regex.split(
            r"\n?\s*(?:```|</?tools>|</|<[|｜]|<tool_call\||<end_function_call>)", text, maxsplit=1
        )
        for part in (text, body[0]):
            with suppress(ValueError, RecursionError):
                return lenient_json.read(part), "" if part is text else text[len(part) :]
        return None, ""


def _calls_in(value: Any, tools: Collection[str], level: int = 0) -> Iterator[WrittenCall]:
    if isinstance(value, list) and level < CALL_TEXT_LIMITS.list_levels:
        for item in cast(list[Any], value):
            yield from _calls_in(item, tools, level + 1)
    if not isinstance(value, Mapping):
        return
    fields = cast(Mapping[str, Any], value)
    inner = fields.get("tool_calls") or fields.get("function")
    if isinstance(inner, Mapping | list):
        if level < CALL_TEXT_LIMITS.list_levels:
            yield from _calls_in(cast(Any, inner), tools, level + 1)
        return
    names = (_plain_name(str(fields[key])) for key in _NAMES if key in fields)
    name = next((name for name in names if name != "function"), "")
    argument_keys = [key for key in _ARGUMENTS if key in fields]
    other_keys = fields.keys() - set(_NAMES) - set(_ARGUMENTS) - set(_BEFORE)
    if name in tools and not other_keys:
        yield WrittenCall(name, _text_of(fields[argument_keys[0]] if argument_keys else {}))


def _text_of(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    if is_deeper(arguments, ARGUMENT_LIMITS.depth):
        levels = ARGUMENT_LIMITS.depth + 1
        return "[" * levels + "]" * levels  # refused when the arguments are read
    return json.dumps(arguments or {}, ensure_ascii=False)
