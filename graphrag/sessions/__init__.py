"""Sessions: their stored form, their state machine, their schedules. Pure, no I/O.

From outside: `agent_session` (the stored form), `phases` (the table), `machine` (transitions),
`schedules`, `schedule_words` and `periods`.
"""
