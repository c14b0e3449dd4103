"""Serves phone calls with declarative agents: both sides, the bridge between them, and records.

Begin with `call_service`: it admits calls (`incoming_calls`), lets an `active_call` serve each, and
ends them (`call_endings`). An active call carries out what the `bridge` decides.
"""
