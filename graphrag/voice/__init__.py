"""Serves phone calls with declarative agents: admits, runs, records and ends them.

Begin with `call_service`: it admits calls (`incoming_calls`), lets an `active_call` serve each, and
ends them (`call_endings`). `transfers` connects callers with somebody else and takes them back;
`recordings` says what the telephone service records. What answers is a `call_engine`: a Realtime
model (`realtime_engine`) or the model of chats (`text_engine`, `call_turns`). An active call
carries out what its dialogue decides, which is that of `graphrag.bridge` or `graphrag.relay`.

From outside: `call_service`, `call_records`, `call_figures`, `call_slots`,
`call_metrics`, `follow_up`, `dependencies` and `errors`.
"""
