"""Puts the service together: wiring, backups, diagnostics, and trials of its parts.

Other packages import `wiring`, `model_services`, `listeners`, `databases`, `models`,
`automation_services`, `connection_services` and `voice_services` (construction),
`service_settings`, `access_tokens`, `api_keys`, `oidc_discovery` and `bounded_download` (signing
in), `whole_graphs`,
`deleted_graphs`, `diagnostics`, `model_trial`, `tool_trial`, `first_prompt`, `simulated_calls`,
`call_replay`, `call_comparison`, `demo_contents`, `usage_report`, `usage_groups`,
`automation_trial`, `today`, `history_term`,
`database_copies`, `database_transfer`.
"""
