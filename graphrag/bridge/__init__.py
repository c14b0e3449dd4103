"""Connects the two sides of a call by a pure state machine: signals in, actions out, no I/O.

`bridge` owns everything; `dialogue` is the shared state, `model_events` and `model_failures` handle
the model side. Begin with `signals`.
"""
