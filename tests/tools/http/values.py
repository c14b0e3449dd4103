"""JSON values, scopes and names for the tests of described tools."""

from typing import Any

from hypothesis import strategies as st

from tools.http import expressions, json_paths, value_templates
from tools.http.expressions import Expression
from tools.http.json_paths import Path
from tools.http.scope import TOOL, ConversationValues, Names, Read, Scope, unreadable, with_steps
from tools.http.value_templates import ValueTemplate

NOW = 1736967600000  # 2025-01-15T19:00:00Z
EVERY: Names = with_steps(TOOL, ("found",)) | {"$", "error", "status"}

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(
        ["{{secret.X}}", "{{", "}}", "..", "../../admin", "a/b?x=1", "'", '"', "\r\n", "é"]
    )
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


def conversation(**values: Any) -> ConversationValues:
    defaults: dict[str, Any] = {
        "agent": {"id": "a1", "name": "Test", "timezone": "Europe/Paris"},
        "base_url": "https://api.example.com",
        "caller_phone": "+33612345678",
        "call_id": "c1",
        "started_time": NOW - 61_500,
        "timezone": "Europe/Paris",
    }
    return ConversationValues(**(defaults | values))


def scope(args: Any = None, ctx: Any = None, session: Any = None, **rest: Any) -> Scope:
    return conversation(ctx=ctx or {}, session=session).scope(NOW, args=args, **rest)


def _readable(reads: tuple[Read, ...], names: Names) -> None:
    if (bad := unreadable(reads, names)) is not None:
        raise bad


def parse_template(text: str, names: Names) -> ValueTemplate:
    """Return the parsed text of a place that may read these names. Raises: BadText."""
    template = value_templates.parse_template(text)
    _readable(template.reads, names)
    return template


def parse_expression(source: str, names: Names) -> Expression:
    expression = expressions.parse_expression(source)
    _readable(expression.reads, names)
    return expression


def parse_path(text: str, names: Names) -> Path:
    path = json_paths.parse_path(text)
    _readable(path.reads, names)
    return path
