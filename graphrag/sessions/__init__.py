"""What a session is: its stored form, its phases, its schedule; pure, no I/O.

From outside: `agent_session` (the stored form), `machine` (phases), `schedules`,
`schedule_words` and `periods`.
"""
