"""Simulates phone calls: a telephone and a Realtime server in software, speech, call scripts.

Calls can be made without a telephone, a key or a network.

From outside: `simulated_call`, `script_player` and `call_script` (calls), `twilio_line`, `speech`
and `fast_loop`.
"""
