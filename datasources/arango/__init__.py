"""ArangoDB as a database of graphs and records."""
