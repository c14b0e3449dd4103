"""Serves phone calls with declarative agents: admits, runs, records and ends them.

Begin with `call_service`: it admits calls (`incoming_calls`), lets an `active_call` serve each, and
ends them (`call_endings`). An active call carries out what the `bridge` decides.

From outside: `call_service`, `call_records`, `call_figures`, `call_slots`,
`call_metrics`, `follow_up`, `dependencies` and `errors`.
"""
