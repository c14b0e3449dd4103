"""Puts the service together: wiring, backups, diagnostics, and trials of its parts.

Other packages import `wiring`, `model_services`, `listeners`, `databases`, `models`,
`automation_services`, `agent_services`, `connection_services` and `voice_services` (construction),
`access_tokens`, `api_keys`, `oidc_discovery` and `bounded_download` (signing in), `whole_graphs`,
`deleted_graphs`, `diagnostics`, `model_trial`, `tool_trial`, `first_prompt`, `simulated_calls`,
`call_replay`, `recorded_conversation`, `usage_report`, `history_term`, `database_copies`.
"""
