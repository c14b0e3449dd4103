"""How good retrieval is: scored on workflows with annotated questions, and on knowledge graphs."""
