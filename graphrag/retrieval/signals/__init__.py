"""The signals of a retrieval, one module each. `table` says when each of them is used."""
