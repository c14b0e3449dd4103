"""Puts the service together: wiring, logs, backups, and what `nodius doctor` examines."""
