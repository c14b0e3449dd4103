"""Holds phone calls with declarative agents: both sides, what is decided in
them, records, simulation.

From outside: `calls`, `call_places`, `call_parts` (calls of this process), `call_records`,
`call_transcript`, `call_after`, `call_errors`, `realtime` and `simulation`
(calls without a telephone or a key).
"""
