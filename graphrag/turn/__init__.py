"""One turn beneath the agent's loop: opened, asked for, checked, held by one process, stored step by step."""
