"""Puts the service together: wiring, backups, and the checks of `nodius doctor`.

Other packages import `wiring`, `listeners`, `databases`, `models`, `automation_services`,
`agent_services`, `connection_services` and `voice_services` (construction), `access_tokens`,
`api_keys`, `oidc_discovery` and `bounded_download` (signing in), `whole_graphs`, `deleted_graphs`,
`diagnostics`, `model_trial`, `usage_report`, `history_term`, `database_copies`.
"""
