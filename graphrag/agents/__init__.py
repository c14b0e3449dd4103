"""Declarative agents: their documents, versions and states, and the conversations that follow them.

From outside: `loading`, `document`, `document_check`, `compiled_agent`, `voice_fields`
and `agent_prompt` (documents), `agent_store`, `manager`, `agent_view`, `sync` and
`agent_worker` (agents and their state), `life`, `document_assistant`, `chat_values`,
`session_source`, `session_fields`, `model_refusal`, `chats` and `toolbox` (conversations),
`realtime_models` and `spoken_names` (calls),
`deliveries`, `trying`, `errors`.
"""
