"""Connects the two sides of a call by a pure state machine: signals in, actions out, no I/O.

`bridge` owns the `dialogue` (the state), and `model_events` and `model_failures`, which work on it.
Begin with `signals`.

From outside: `bridge`, `signals`, `phone_messages`, `timers` and `transcript`.
"""
