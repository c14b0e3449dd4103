"""What a session is: its stored form, its phases, its schedule; pure, no I/O.

From outside: `documents` (the stored form), `machine` (phases), `schedules` and `periods`.
"""
