"""Language models behind one interface, the choice among them by settings, tokens,
usage and prices.

From outside: `base` (messages and chunks), `errors`, `registry` (choosing a provider,
prices), `model_text` (what a model says, read), `written_calls`,
`tokens`, `usage_meter`, `metered`.
"""
