"""Sessions that run when nobody is there: templates, automations, their schedules and their states.

From outside: `machine` (the phases of a session), `schedules` and `periods` (when, and which time is meant).
"""
