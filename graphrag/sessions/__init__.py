"""Sessions: their stored form, their state machine, their schedules. Pure functions, no I/O.

Other packages import `agent_session` (the stored form), `phases` (the table), `machine`
(transitions), `schedules`, `schedule_words` and `periods`.
"""
