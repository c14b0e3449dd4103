"""Channels: the events of a turn mapped to each protocol. Pure mapping, no requests and no I/O."""
