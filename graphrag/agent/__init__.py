"""The agent: its loop, one turn, tool calls, history, events and stored threads.

From outside: `loop`, `events` and `failures` (a turn as channels see it), `thread_store`,
`thread_messages`, `thread_agent` and `history` (stored conversations), `tool_calls`, `call_log` and
`requested_calls`, `session_agent` and `session_turn` (runs), `running_turn`, `turn_steps`, `turn_lease`,
`pending_question`, `reply`, `links`.
"""
