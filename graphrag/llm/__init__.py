"""Language models behind one interface: providers and their choice by settings, tokens, usage and
prices.

Other packages import `base` (messages and chunks), `errors`, `registry` (the choice of a provider,
prices), `model_text` (the text of a model split into answer, thinking and calls), `written_calls`,
`tokens`, `usage_meter`, `metered`.
"""
