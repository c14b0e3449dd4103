"""The file of a list of agents: where the list is, the shared document, and the variables
of items.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated, Any, Final, Literal, cast, final
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints, ValidationError

from graphrag.agents.agent_store import fingerprint
from graphrag.agents.errors import AgentListRefused, AgentTooLarge
from graphrag.agents.loading import read_document
from tools.http.compiled import broken_request, misread, secrets_of
from tools.http.json_paths import Path
from tools.http.model import Condition, DocumentPart, JsonPath, RequestParts, Url
from tools.http.problems import DocumentProblem
from tools.http.scope import RESPONSE, Names, Scope

NAMES: Final[Names] = frozenset(("now_iso", "today"))
OF_ITEM: Final[Names] = NAMES | {RESPONSE}
_NO_SCOPE: Final = Scope({})


@final
class ListRequest(RequestParts):
    """Where the list is fetched; `items` leads to it in the answer."""

    method: Literal["GET"] = "GET"
    url: Url
    timeout_s: float = Field(default=10, ge=0.5, le=30)
    items: JsonPath = Field(default=cast(Any, "$"), validate_default=True)


@final
class AgentListFile(DocumentPart):
    """What the file of a list says. `template` is a file beside it."""

    list: ListRequest
    template: str
    variables: dict[Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$")], JsonPath] = (
        Field(default_factory=dict[str, Path], max_length=100)
    )
    id: JsonPath
    when: Condition | None = None
    on_missing: Literal["stop", "keep"] = "stop"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentList:
    """A list and the document that its agents share. `name`: that of its file."""

    name: str
    file: AgentListFile
    template: Mapping[str, Any]

    def items_of(self, answer: Any) -> list[Any]:
        """Returns the items of a fetched list. Raises: AgentListRefused if it has none."""
        found = self.file.list.items.first(answer, _NO_SCOPE)
        if not isinstance(found, list):
            raise AgentListRefused(
                source=self.name, reason="`items` leads to no list in the answer"
            )
        if not found:
            raise AgentListRefused(source=self.name, reason="the list is empty")
        return cast(list[Any], found)

    def wanted(self, items: Sequence[Any]) -> list[WantedAgent | BrokenItem]:
        """Returns the agents of the items, without those that `when` excludes.

        Items that share an id are all broken, as it is not known which one is right.
        """
        when = self.file.when
        found: list[WantedAgent | BrokenItem] = [
            self._agent(number, item)
            for number, item in enumerate(items)
            if when is None or when.holds(Scope({RESPONSE: item}))
        ]
        times = Counter(each.agent_id for each in found)
        return [
            BrokenItem(agent_id=each.agent_id, what="several items have this id")
            if isinstance(each, WantedAgent) and times[each.agent_id] > 1
            else each
            for each in found
        ]

    def _agent(self, number: int, item: Any) -> WantedAgent | BrokenItem:
        agent_id = _text(self.file.id.first(item, _NO_SCOPE))
        if not agent_id:
            return BrokenItem(agent_id="", what=f"item {number} has no id")
        values = {
            name: _text(path.first(item, _NO_SCOPE)) for name, path in self.file.variables.items()
        }
        variables = {name: value for name, value in values.items() if value is not None}
        about: Any = self.template.get("agent")
        facts = cast(dict[str, Any], about) if isinstance(about, dict) else {}
        document: dict[str, Any] = {**self.template, "agent": {**facts, "id": agent_id}}
        read = read_document(document, variables)
        if read.problems or read.document is None:
            first = read.problems[0]
            return BrokenItem(agent_id=agent_id, what=f"{first.where}: {first.what}")
        try:
            made = fingerprint(read.document, variables)
        except AgentTooLarge as exc:
            return BrokenItem(agent_id=agent_id, what=str(exc))
        return WantedAgent(
            agent_id=agent_id, document=document, variables=variables, fingerprint=made
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WantedAgent:
    """An agent of a list: the shared document with its id, and its variables."""

    agent_id: str
    document: Mapping[str, Any]
    variables: Mapping[str, str]
    fingerprint: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenItem:
    """An item that describes no agent; `agent_id` is "" if it has no valid id."""

    agent_id: str
    what: str


def read_list(file: FilePath) -> AgentList:
    """Returns the list that a file describes. Raises: AgentListRefused with all its problems."""
    problems: list[DocumentProblem] = []
    parsed = _read(file, file.name, problems)
    try:
        written = AgentListFile.model_validate(parsed)
    except ValidationError as exc:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in exc.errors()]
        raise AgentListRefused(source=file.name, reason="; ".join(faults)) from None
    template = _read(file.parent / written.template, written.template, problems)
    problems += misread(written.list, "list", NAMES)
    problems += misread(written.id, "id", frozenset())
    problems += misread(written.variables, "variables", frozenset())
    problems += misread(written.when, "when", OF_ITEM)
    # its secrets are for the host of the list alone
    host = urlsplit(written.list.url.source).hostname or ""
    secrets = {
        name: [host] for header in written.list.headers.values() for name in secrets_of(header)
    }
    problems += broken_request(written.list, "list", None, secrets)
    if problems:
        said = (f"{problem.where}: {problem.what}" for problem in problems)
        raise AgentListRefused(source=file.name, reason="; ".join(said))
    return AgentList(name=file.name, file=written, template=template)


def _read(file: FilePath, named: str, problems: list[DocumentProblem]) -> dict[str, Any]:
    try:
        read = read_document(file.read_bytes())
    except OSError as exc:
        raise AgentListRefused(source=named, reason=exc.strerror or "it cannot be read") from None
    problems += [each for each in read.problems if each.code != "unresolved_variable"]
    return read.document or {}


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None
