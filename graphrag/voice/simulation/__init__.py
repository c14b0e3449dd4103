"""Calls without a telephone: a phone that is none, speech of this machine, scripts and recordings.

From outside: `speech`, `mu_law`, `phone_simulator`, `call_script`, `simulated_call`, `fast_loop`.
"""
