"""Connects the two sides of a call by a pure state machine: signals in, actions out, no I/O.

`bridge` owns the `dialogue` (the state) and what works on it: `model_events` and `model_failures` for
the model side. Begin with `signals`.
"""
