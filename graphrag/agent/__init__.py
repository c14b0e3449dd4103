"""The agent: its loop, one turn, tool calls, history, events and stored threads.

From outside: `loop`, `assistant`, `turn_steps` and `events` (a turn as channels see it),
`thread_store`, `thread_messages`, `thread_agent`, `conversation_state` and `history` (stored
conversations), `tool_calls` and `requested_calls`, `session_agent` and `session_turn` (runs),
`turn`, `turn_events`, `turn_trace`, `chat_turn`, `turn_lease`, `reply`, `claims`, `named_graph`.
"""
