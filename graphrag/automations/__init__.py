"""Automations: prepared tasks that the service runs at set times, without a person.

From outside: `automation` (the document), `automation_store` (`Automations`), `service`
(`AutomationService`), `scheduler` (`Scheduler`), `templates`.
"""
