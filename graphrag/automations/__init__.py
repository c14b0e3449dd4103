"""Automations: prepared tasks that the service runs at set times, without a person.

Other packages import `automation` and `automation_store` (stored forms), `service`, `drafts`,
`templates`, `event_starts`, `session_control` (operations for people), `automation_view`,
`workspace_rules`, `scheduler`, `worker`, `run_listeners`, `last_seen`, `errors`.
"""
