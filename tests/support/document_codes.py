"""The codes of what can be wrong with an agent document."""

from __future__ import annotations

from typing import Final

ERRORS: Final = frozenset(
    (
        *(
            "unsupported_version",
            "unknown_field",
            "missing_field",
            "wrong_type",
            "out_of_range",
            "bad_name",
        ),
        *(
            "duplicate_name",
            "reserved_name",
            "unknown_voice",
            "unsupported_audio_format",
            "bad_template",
        ),
        *(
            "unknown_namespace",
            "unknown_path",
            "unknown_filter",
            "secret_not_allowed_here",
            "undeclared_secret",
        ),
        *("bad_expression", "bad_jsonpath", "bad_schema", "host_not_literal", "missing_base_url"),
        *("both_body_and_builder", "body_with_get", "unknown_builder", "unhandled_tool"),
        *(
            "unknown_graph_tool",
            "propose_needs_editor",
            "unknown_destination",
            "unresolved_variable",
        ),
        *("too_large", "too_deep"),
    )
)
"""Codes of a document that is wrong by itself."""
WORLD_ERRORS: Final = frozenset(
    (
        *(
            "graph_not_found",
            "host_not_allowed",
            "secret_missing",
            "model_key_missing",
            "provider_unknown",
        ),
        "model_refused",
    )
)
"""Codes of what the document needs and the world has not (`check_world`)."""
