"""Automations: prepared tasks that the service runs at set times, without a person.

From outside: `automation` and `automation_store` (stored forms), `service`, `drafts`, `templates`,
`event_starts`, `session_control` (what people do), `automation_view`, `scheduler`,
`worker`, `run_listeners`, `last_seen`, `errors`.
"""
