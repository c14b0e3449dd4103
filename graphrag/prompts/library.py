"""Loads and renders prompts, which are Markdown templates with declared inputs. The system prompt
has the model's role, its graph and types, and its permissions.

A placeholder is `<<name>>`, so that client links such as `{{node:KEY}}` and code need no escaping.
A template whose placeholders and declared inputs differ fails when it is loaded. Values are
inserted once and never parsed as templates. Names and descriptions of the graph are data: each is
written into a TOON cell, on one line of limited length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from typing import Any, Literal

from datasources.builtin_types import BUILTIN_TYPES
from datasources.types import Graph, GraphStats, NodeTypeConfig
from graphrag.i18n import Language
from languages.reading import LanguageIncomplete, read_text
from tools.base import Role
from tools.compact import compact_handles, cut, cut_name
from tools.toon import encode, encode_table

_FRONT = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_PLACEHOLDER = re.compile(r"<<([a-z_]*)>>")
_SECTION = re.compile(r"^## ([a-z_]+)\n", re.MULTILINE)
_NAME = re.compile(r"[a-z_]+")


class PromptError(Exception):
    """A prompt cannot be used. The text has its name and the problem."""

    def __init__(self, *, prompt: str, reason: str) -> None:
        self.prompt = prompt
        self.reason = reason
        super().__init__(f"prompt {prompt!r}: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A valid template. `body` contains each of `inputs` at least once and no other placeholder."""

    name: str
    inputs: frozenset[str]
    body: str

    def render(self, values: Mapping[str, str]) -> str:
        """Returns the body with all placeholders replaced. Raises: PromptError for other inputs
        than declared.
        """
        given = frozenset(values)
        if given != self.inputs:
            reason = _difference("given values", given, "declared inputs", self.inputs)
            raise PromptError(prompt=self.name, reason=reason)
        return _PLACEHOLDER.sub(lambda match: values[match.group(1)], self.body)


def parse_template(name: str, text: str) -> Template:
    """Returns the template of a Markdown text with the front matter `inputs: a, b`.

    Raises: PromptError if the front matter is missing or malformed, a placeholder is undeclared, or
    a declared input is unused.
    """
    front = _FRONT.match(text)
    if front is None:
        raise PromptError(
            prompt=name, reason="it must begin with front matter: ---, inputs: a, b, ---"
        )
    declared = _declared(name, front.group(1))
    body = text[front.end() :].strip()
    used: frozenset[str] = frozenset(_PLACEHOLDER.findall(body))
    if used != declared:
        reason = _difference("placeholders", used, "declared inputs", declared)
        raise PromptError(prompt=name, reason=reason)
    return Template(name=name, inputs=declared, body=body)


def _declared(name: str, front: str) -> frozenset[str]:
    field, _, value = front.partition(":")
    if field.strip() != "inputs" or "\n" in front.strip():
        raise PromptError(prompt=name, reason="front matter holds one line, `inputs: a, b`")
    inputs = [part for part in map(str.strip, value.split(",")) if part]
    for part in inputs:
        if not _NAME.fullmatch(part):
            raise PromptError(
                prompt=name, reason=f"input {part!r} must be lower-case letters and _"
            )
    if len(set(inputs)) < len(inputs):
        raise PromptError(prompt=name, reason="an input is declared twice")
    return frozenset(inputs)


def _difference(this: str, found: frozenset[str], that: str, wanted: frozenset[str]) -> str:
    extra = sorted(found - wanted)
    missing = sorted(wanted - found)
    parts: list[str] = []
    if extra:
        parts.append(f"{this} not among {that}: {', '.join(map(repr, extra))}")
    if missing:
        parts.append(f"{that} not among {this}: {', '.join(map(repr, missing))}")
    return "; ".join(parts)


@cache
def load_template(name: str, language: Language) -> Template:
    """Returns the template `prompts/name.md` of a language. Raises: PromptError."""
    return parse_template(f"{name}.{language}", _read(name, language))


@cache
def load_phrases(name: str, language: Language) -> Mapping[str, Template]:
    """Returns the `## section` templates of `prompts/name.md`; each declares its placeholders.

    Raises: PromptError.
    """
    text = _read(name, language)
    parts = _SECTION.split(text)
    phrases: dict[str, Template] = {}
    for section, body in zip(parts[1::2], parts[2::2], strict=True):
        full = f"{name}.{language}#{section}"
        if section in phrases:
            raise PromptError(prompt=full, reason="the section stands twice")
        inputs: frozenset[str] = frozenset(_PLACEHOLDER.findall(body))
        if not all(_NAME.fullmatch(part) for part in inputs):
            raise PromptError(prompt=full, reason="a placeholder has no name")
        phrases[section] = Template(name=full, inputs=inputs, body=body.strip())
    return phrases


def _read(name: str, language: Language) -> str:
    try:
        text = read_text(language, f"prompts/{name}.md")
    except (LanguageIncomplete, UnicodeDecodeError) as exc:
        raise PromptError(
            prompt=f"{language}/prompts/{name}.md",
            reason=f"the file cannot be read: {type(exc).__name__}",
        ) from exc
    return text.replace("\r\n", "\n")


MAX_SHEETS = 30
MAX_TYPES = 40
MAX_TYPES_COMPACT = 10
MAX_DESCRIBED = 12
MAX_NAMED = 12
MAX_NAME_CHARS = 120
MAX_DESCRIPTION_CHARS = 400
MAX_TYPE_DESCRIPTION_CHARS = 120
MAX_HANDLES_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What a run of an automation is told of itself.

    `occurrence`: the time that it runs for, in its time zone `timezone`. Limits of the whole run:
    `calls` of the model, `tokens`, `cost_usd`, active `minutes`; None: no limit.
    """

    occurrence: datetime
    timezone: str
    trigger: Literal["manual", "scheduled", "event"]
    calls: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    minutes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptInputs:
    """The inputs of the system prompt.

    `configs`: the types of the workspace by name, including built-in ones. `sheets` (id: name):
    replaces the graph's own sheets. `permission` "read" removes the write permission of the role.
    `compact`: for a small context window, without information that tool calls can provide. `run`:
    the run of an automation that the prompt is for; it has no counts, since its own changes would
    alter them.
    """

    graph: Graph
    stats: GraphStats
    configs: Mapping[str, NodeTypeConfig]
    sheets: Mapping[str, str] | None = None
    role: Role = "viewer"
    permission: Literal["read", "write"] = "write"
    language: Language = "en"
    today: date | None = None
    compact: bool = False
    run: RunFacts | None = None

    @property
    def is_run(self) -> bool:
        return self.run is not None

    @property
    def writes(self) -> bool:
        """Whether changes may be proposed."""
        return self.role != "viewer" and self.permission == "write"


def render_system_prompt(inputs: PromptInputs) -> str:
    """Returns the system prompt of a conversation or a run. Raises: PromptError."""
    table, note = _types(inputs)
    about: dict[str, str] = {
        "graph": "\n".join(
            part for part in (_graph(inputs), _sheets(inputs), _today(inputs)) if part
        ),
        "types": f"{table}\n{note}",
    }
    size = "_small" if inputs.compact else ""
    if inputs.run is not None:
        about |= {"run": _budget(inputs.run, inputs.language), "tools_rule": _rules(inputs, "run_")}
        return load_template(f"run{size}", inputs.language).render(about)
    about |= {"role": _role(inputs), "tools_rule": _rules(inputs, "rule_", size)}
    return load_template("small" if inputs.compact else "system", inputs.language).render(about)


def _role(inputs: PromptInputs) -> str:
    role = [_phrase(inputs.role, inputs.language)]
    if not inputs.writes and inputs.role != "viewer":
        role.append(_phrase("read_only", inputs.language))
    return " ".join(role)


def _rules(inputs: PromptInputs, prefix: str, size: str = "") -> str:
    """Returns the rules about changes, and the forms of the arguments of tools that propose."""
    language = inputs.language
    rules = [_phrase(f"{prefix}{'write' if inputs.writes else 'read'}{size}", language)]
    if inputs.writes and not inputs.compact:
        rules.append(_phrase("argument_forms", language))
    return "\n".join(rules)


def context_phrase(name: str, language: Language, **values: object) -> str:
    """Returns a heading or sentence of a context. Raises: PromptError."""
    written = {place: str(value) for place, value in values.items()}
    return load_phrases("context", language)[name].render(written)


def _phrase(name: str, language: Language, **values: str) -> str:
    return load_phrases("phrases", language)[name].render(values)


def run_occurrence(run: RunFacts, language: Language) -> str:
    """Returns the time that a run is for, and why it runs. It stands at the end of each request, so
    that providers can cache what is the same for all runs of an automation.

    Raises: PromptError.
    """
    why = _phrase(f"run_why_{run.trigger}", language)
    time = f"{run.occurrence:%Y-%m-%d %H:%M}"
    return _phrase("run_occurrence", language, time=time, zone=run.timezone, why=why)


def _budget(run: RunFacts, language: Language) -> str:
    """Returns what a run may use."""
    if run.calls is None:
        return ""
    cost = None if run.cost_usd is None else f"{run.cost_usd:g}"
    limits = {"tokens": run.tokens, "cost": cost, "minutes": run.minutes}
    listed = [
        _phrase(f"run_{name}", language, **{name: str(limit)})
        for name, limit in limits.items()
        if limit is not None
    ]
    rest = "".join(f", {limit}" for limit in listed)
    return _phrase("run_budget", language, calls=str(run.calls), limits=rest)


def _graph(inputs: PromptInputs) -> str:
    graph = inputs.graph
    shown: dict[str, Any] = {
        "graph": graph.key,
        "name": cut_name(graph.name, MAX_NAME_CHARS),
        "description": cut_name(graph.description or "", MAX_DESCRIPTION_CHARS) or None,
    }
    if not inputs.is_run:
        shown |= {"nodes": inputs.stats.nodes, "edges": inputs.stats.edges}
    if not inputs.compact:
        category = cut_name(graph.category, MAX_NAME_CHARS)
        shown |= {} if inputs.is_run else {"version": graph.version}
        shown |= {"category": category, "permission": graph.permission}
    return encode({name: value for name, value in shown.items() if value is not None})


def _today(inputs: PromptInputs) -> str:
    return _phrase("today", inputs.language, date=inputs.today.isoformat()) if inputs.today else ""


def _sheets(inputs: PromptInputs) -> str:
    sheets = inputs.graph.sheets_list if inputs.sheets is None else inputs.sheets
    if inputs.compact and len(sheets) == 1:
        return ""
    rows = [
        {"sheet": cut_name(key, 40), "name": cut_name(name, MAX_NAME_CHARS)}
        for key, name in list(sheets.items())[:MAX_SHEETS]
    ]
    lines = [encode_table("sheets", rows, ["sheet", "name"])] if rows else []
    if len(sheets) > MAX_SHEETS:
        lines.append(_phrase("sheets_more", inputs.language, more=str(len(sheets) - MAX_SHEETS)))
    return "\n".join(lines)


def _types(inputs: PromptInputs) -> tuple[str, str]:
    used = inputs.stats.types
    families = {_family(name) for name in used}
    weights = {name: _weight(count, inputs) for name, count in used.items()}
    ordered = sorted(
        inputs.configs.values(),
        key=lambda config: (
            -weights.get(config.type, 0),
            _family(config.type) not in families,
            config.type,
        ),
    )
    in_use = [config for config in ordered if config.type in used] or ordered
    shown = in_use[: MAX_TYPES_COMPACT if inputs.compact else MAX_TYPES]
    first = {config.type for config in shown}
    shown += [config for config in ordered if config.type in BUILTIN_TYPES.keys() - first]
    rows = [
        _type_row(config, None if inputs.is_run else used.get(config.type, 0)) for config in shown
    ]
    for place, row in enumerate(rows):
        if inputs.compact or (place >= MAX_DESCRIBED and row["type"] not in BUILTIN_TYPES):
            row["description"] = None
    language = inputs.language
    listed = {config.type for config in shown}
    notes = [_left_out([config for config in ordered if config.type not in listed], language)]
    unknown = sum(name not in inputs.configs for name in used)
    if unknown:
        notes.append(_phrase("types_unknown", language, count=str(unknown)))
    if inputs.compact:
        used_rows = [row for row in rows if row["type"] in used] or rows
        return encode_table("types", used_rows, ["type", "handles"]), ""
    columns = ["type", "name", "handles", *([] if inputs.is_run else ["nodes"]), "description"]
    return encode_table("types", rows, columns), " ".join(notes)


def _weight(nodes: int, inputs: PromptInputs) -> int:
    """Returns the sort key of a type: the number of its nodes, in a run only whether it is used."""
    return min(nodes, 1) if inputs.is_run else nodes


def _family(name: str) -> str:
    """Returns the package of a type, as `n8n-nodes-base` of `n8n-nodes-base.set`."""
    return name.rpartition(".")[0]


def _left_out(types: Sequence[NodeTypeConfig], language: Language) -> str:
    """Returns the names of the types that are not in the table, in a TOON cell, like all text of
    people.
    """
    if not types:
        return _phrase("types_all", language)
    names = ", ".join(encode(cut(config.type, MAX_NAME_CHARS)) for config in types[:MAX_NAMED])
    return _phrase(
        "types_more", language, more=str(len(types)), names=names + ("…" * (len(types) > MAX_NAMED))
    )


def _type_row(config: NodeTypeConfig, nodes: int | None) -> dict[str, Any]:
    return {
        "type": cut(config.type, MAX_NAME_CHARS),
        "name": cut_name(config.display_name, 80),
        "handles": cut(compact_handles(config.node.handles), MAX_HANDLES_CHARS) or None,
        "nodes": nodes,
        "description": cut_name(config.description, MAX_TYPE_DESCRIPTION_CHARS) or None,
    }
