"""Simulates phone calls: a telephone and a Realtime server in software, speech, call scripts.

Calls can be made without a telephone, a key or a network. Modules for other packages:
`realtime_double`, `minds`, `call_script`, `simulated_call`, `phone_simulator`, `twilio_line`,
`speech`, `mu_law`, `fast_loop`.
"""
