"""Simulates calls: a telephone in software, speech made on this machine, scripts and recordings.

From outside: `speech`, `mu_law`, `phone_simulator`, `call_script`, `simulated_call`, `fast_loop`.
"""
