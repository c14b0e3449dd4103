"""The signals of a retrieval, one module each. `signal_table` says when each of them is used."""
