"""What the service promises to do, a row each, with the tests that show it; what no test shows yet is listed.

A row without tests is not a promise that is kept.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests.support.each_row import each_row

ROOT = Path(__file__).parent

PROMISES: dict[str, tuple[str, ...]] = {
    "feedback on any decision is stored, audited and read by the model, on every way in": (
        "graphrag/approvals/test_deciding.py::test_feedback_on_any_decision_is_stored_audited_and_in_the_outcome",
        "server/test_rest_review.py::test_feedback_on_an_approval_is_kept_and_the_model_reads_it",
        "server/test_rest_review.py::test_feedback_on_a_resumed_approval_is_kept_and_the_model_reads_it",
        "server/test_ws_ai.py::test_feedback_on_an_approval_is_kept_and_the_model_reads_it",
        "cli/test_review.py::test_approve_with_an_edit_carries_the_edit_out_and_keeps_the_feedback",
        "e2e/test_review_news.py::test_a_remark_goes_with_an_approval_and_stays_with_it",
    ),
    "a failing embedding service stalls no question and no approval": (
        "graphrag/embedding/test_query_embedder.py::test_a_question_makes_one_attempt_and_the_next_ones_none",
        "graphrag/embedding/test_query_embedder.py::test_a_hung_service_is_waited_for_a_bounded_time",
        "graphrag/embedding/test_query_embedder.py::test_after_its_rest_a_service_is_tried_beside_a_question_that_does_not_wait",
        "graphrag/embedding/test_queue.py::test_an_approval_never_waits_for_an_embedding",
        "server/test_rest_ai.py::test_an_answer_says_that_words_alone_were_searched_when_the_embedding_service_fails",
    ),
    "every error is a whole sentence of one language; a provider's words stand beside it": (
        "graphrag/test_i18n.py::test_no_text_is_empty_and_no_french_text_is_english",
        "graphrag/test_errors.py::test_every_error_is_a_whole_sentence_in_both_languages",
    ),
    "a question of the model reaches only who can show it, and its first answer counts": (
        "server/test_questions.py::test_an_unmodified_client_never_gets_a_question_on_any_way",
        "graphrag/agent/test_questions_of_a_turn.py::test_two_answers_at_once_are_never_both_taken",
        "graphrag/agent/test_questions_of_a_turn.py::test_text_typed_in_its_place_closes_a_question",
        "concurrency/test_turn_kill.py::test_killed_anywhere_in_an_answer_the_question_waits_or_has_its_one_answer",
        "e2e/test_asked.py::test_after_a_reload_and_in_another_tab_the_question_is_there_and_one_answer_counts",
    ),
    "an admin sees what models called lately and why calls were not run": (
        "server/test_rest_calls.py::test_an_admin_sees_the_last_calls_of_their_workspaces_and_nobody_else_any",
        "server/test_metrics.py::test_a_scrape_after_a_story_counts_all_of_it",
    ),
    "who cannot grant more rounds of tools is answered without tools": (
        "server/test_rest_ai.py::test_who_is_not_interactive_gets_an_answer_without_tools_when_the_rounds_are_used_up",
    ),
    "an answer over REST carries the nodes that the model was shown": (
        "server/test_rest_ai.py::test_an_answer_says_which_nodes_the_model_was_shown_and_why",
    ),
    "scores that a model sees say when nothing is near the question": (
        "cli/test_ask.py::test_scores_say_when_nothing_is_near_the_question",
    ),
    "events are JSON lines in every command, under names and with fields of one table": (
        "graphrag/test_log_events.py::test_a_turn_with_interrupt_resume_malformed_arguments_and_a_failure_is_logged",
        "graphrag/test_log_events.py::test_a_person_of_no_debug_events_receives_errors_and_usage",
        "server/test_ws_log.py::test_a_conversation_with_interrupt_resume_and_a_client_that_leaves_is_logged",
        "server/test_ws_log.py::test_a_usage_limit_that_refuses_a_message_is_logged_with_its_session_and_thread",
    ),
    "metrics count tokens by model; provider, model and embedder are logged at start": (
        "server/test_metrics.py::test_tokens_are_counted_by_model_and_so_are_those_of_a_cache",
        "graphrag/test_log_events.py::test_who_answers_and_who_embeds_is_logged_at_start",
    ),
    "doctor asks the configured model a question and the embedder for a vector": (
        "cli/test_doctor.py::test_asking_shows_what_the_model_says",
        "cli/test_doctor.py::test_asking_says_how_long_the_embedder_took",
    ),
    "one command checks whatever keys are set, and says what it skipped": (
        "real/test_checks.py::test_all_five_checks_pass_on_a_service_that_works",
        "real/test_checks.py::test_what_a_service_does_wrong_fails_its_check_and_the_others_are_made",
        "real/test_checks.py::test_without_keys_everything_is_said_to_be_skipped_and_why",
    ),
    "tools that propose are listed and tried on the command line; nothing is stored": (
        "cli/test_ask.py::test_tools_are_listed_with_their_schemas",
        "cli/test_ask.py::test_a_change_is_tried_and_shown_as_for_a_decision_and_nothing_is_stored",
        "cli/test_ask.py::test_a_change_that_cannot_be_gets_the_answer_a_model_would_get",
    ),
    "embeddings are chosen by the keys that are set, and never mixed": (
        "graphrag/embedding/test_openai_compatible.py::test_a_key_of_openai_chooses_its_embeddings_unless_local_ones_are_set",
        "graphrag/embedding/test_refresh.py::test_vectors_of_another_model_are_renewed_by_force_alone_and_models_are_never_mixed",
    ),
    "vectors that an editor wrote are adopted, not overwritten": (
        "cli/test_embed_arango.py::test_vectors_of_the_editor_are_kept_adopted_by_their_length_or_renewed_by_force",
        "cli/test_embed_nodes.py::test_a_model_that_does_not_search_adopts_nothing",
    ),
    "all workspaces are embedded by one command, which says when the chosen one is empty": (
        "cli/test_embed_nodes.py::test_all_workspaces_can_be_embedded_and_an_empty_one_says_where_graphs_are",
    ),
    "the first 8,000 characters of a node are embedded": (
        "graphrag/embedding/test_base.py::test_the_first_8000_characters_are_embedded",
    ),
    "a provider is one entry of the registry": (
        "graphrag/llm/test_registry.py::test_a_further_provider_is_one_entry_with_its_own_key_variable_and_no_setting",
    ),
    "a new node may have handles; read tools take the argument names of write tools": (
        "tools/test_write_tools.py::test_a_new_node_may_have_handles_of_its_own",
        "tools/test_read_tools.py::test_read_tools_take_the_names_of_write_tools_and_the_older_ones",
        "tools/test_read_tools.py::test_errors_name_an_argument_as_the_schema_does",
    ),
    "the system prompt has the built-in types, the graph's own family first, and counts the rest": (
        "graphrag/prompts/test_prompts.py::test_built_in_types_always_stand_in_the_table_and_the_rest_is_counted_own_family_first",
        "tools/test_read_tools.py::test_overview_counts_and_names_entries_hubs_and_loose_ends",
    ),
    "threads that Nodius stored go on where they wait": (
        "graphrag/agent/test_editor_threads.py::test_old_instructions_and_contexts_are_replaced_by_ours",
        "graphrag/agent/test_editor_threads.py::test_a_pending_interrupt_is_decided_and_the_turn_goes_on",
        "graphrag/agent/test_editor_threads.py::test_a_pending_interrupt_that_no_longer_fits_is_reported_to_the_model_instead",
        "graphrag/agent/test_editor_threads.py::test_a_pending_tool_limit_is_granted",
    ),
    "ArangoDB 3.11 is taken with exact search; reads fail with 503 while a database is down": (
        "datasources/arango/test_server_version.py::test_a_version_is_accepted_or_refused",
        "datasources/arango/test_server_version.py::test_of_3_11_every_search_is_exact_and_no_order_is_taken_from_the_server",
        "datasources/arango/test_statements.py::test_a_statement_uses_what_3_11_has_but_for_the_vector_index",
        "server/test_database_down.py::test_reads_and_a_running_turn_fail_with_503_and_go_on_when_it_is_back",
    ),
    "live editing of node types is done, or refused by name": (
        "server/test_ws_sync.py::test_live_edits_of_node_types_are_refused_by_name_and_change_nothing",
    ),
    "a session follows one table, which is written down apart from the code": (
        "graphrag/sessions/test_machine.py::test_every_event_in_every_phase_with_every_guard_follows_the_table",
        "graphrag/sessions/test_machine.py::test_every_phase_can_be_reached",
        "graphrag/sessions/test_machine.py::test_an_open_phase_of_a_run_has_a_way_out_without_a_person_unless_it_waits_for_one",
        "graphrag/sessions/test_machine.py::test_no_order_of_events_breaks_a_rule",
    ),
    "runs keep their rules in any order of events, on every store": (
        "graphrag/automations/test_any_order.py::test_the_rules_hold_in_any_order_often",
        "graphrag/automations/test_any_order.py::test_the_rules_hold_in_any_order_in_a_file",
        "graphrag/automations/test_any_order.py::test_the_rules_hold_in_any_order_in_arangodb",
    ),
    "a run killed at any write ends as without the kill": (
        "concurrency/test_session_kill.py::test_a_run_killed_at_any_write_ends_as_without_the_kill",
        "graphrag/automations/test_interruptions.py::test_a_process_that_was_frozen_for_longer_than_its_lease_stores_nothing",
    ),
    "each occurrence becomes one run, however many servers tick and die": (
        "concurrency/test_session_servers.py::test_each_occurrence_becomes_one_run_on_four_servers_that_die",
        "concurrency/test_session_servers.py::test_so_it_does_on_four_servers_of_one_arangodb",
    ),
    "no zone and no change of clocks loses or doubles a run; what was missed is caught up as asked": (
        "graphrag/sessions/test_schedules.py::test_no_zone_of_2020_to_2035_loses_or_doubles_an_occurrence",
        "graphrag/sessions/test_schedules.py::test_a_clock_that_is_set_back_runs_nothing_again",
        "graphrag/automations/test_runs.py::test_what_was_missed_in_47_days",
        "graphrag/automations/test_runs.py::test_a_late_run_reads_what_it_was_meant_to_and_stores_no_command_and_no_level",
    ),
    "a run ends within its calls, tokens, time and the day's cost, also across servers that die": (
        "graphrag/automations/test_runs.py::test_endless_calls_end_at_the_limit_with_what_was_said",
        "graphrag/automations/test_runs.py::test_three_answers_of_wrong_form_end_a_run",
        "graphrag/automations/test_runs.py::test_endless_actions_that_fail_end_at_the_limit",
        "graphrag/automations/test_runs.py::test_a_model_that_never_finishes_is_timed_out",
        "graphrag/automations/test_runs.py::test_tokens_end_a_run_and_three_failures_pause_an_automation",
        "graphrag/automations/test_limits.py::test_budgets_hold_on_two_servers_that_die",
        "graphrag/automations/test_limits.py::test_what_a_run_used_is_counted_on_the_day_on_which_it_was_used",
        "graphrag/automations/test_limits.py::test_how_a_run_ended_is_known_where_its_process_died_just_then",
    ),
    "a run waits for its model's service without its slot, and is stopped in two seconds in any phase": (
        "graphrag/automations/test_runs.py::test_a_service_that_is_away_holds_no_slot_and_is_asked_again_later",
        "graphrag/automations/test_interruptions.py::test_a_run_is_stopped_in_whatever_phase_and_its_proposals_stay",
        "graphrag/automations/test_interruptions.py::test_a_run_that_nobody_works_on_is_stopped_in_whatever_phase_it_was_left",
        "graphrag/automations/test_interruptions.py::test_a_run_is_stopped_in_the_middle_of_what_hangs",
        "graphrag/automations/test_interruptions.py::test_an_action_under_way_is_finished_before_its_run_is_stopped",
        "graphrag/automations/test_interruptions.py::test_a_run_is_stopped_while_it_notes_why_it_tries_again",
    ),
    "a conversation goes before a run of its graph, which goes on by itself": (
        "graphrag/automations/test_interruptions.py::test_a_conversation_goes_first_and_the_run_goes_on_by_itself",
        "graphrag/automations/test_interruptions.py::test_however_often_it_makes_way_a_run_ends_as_without",
    ),
    "an automation asks for the same once, and runs without a model": (
        "graphrag/automations/test_rules_runs.py::test_nightly_check_proposes_reports_what_was_approved_and_skips_an_unchanged_graph",
        "graphrag/automations/test_rules_runs.py::test_what_was_rejected_is_not_asked_again_and_the_report_says_so",
        "e2e/test_automations.py::test_a_nightly_check_is_made_run_decided_by_two_people_and_does_not_ask_again",
    ),
    "most of a run's prompt is read from the provider's cache": (
        "graphrag/automations/test_cache_share.py::test_from_its_second_call_on_a_run_reads_nine_tenths_of_its_prompt_from_the_cache",
    ),
    "a run is followed live by who may see it": (
        "server/test_ws_sessions.py::test_a_run_is_followed_live_by_who_may_see_it_from_its_beginning",
        "server/test_ws_sessions.py::test_a_run_is_seen_by_who_may_see_it_until_it_ends",
    ),
}
"""Tests by file and name, relative to this folder."""


@cache
def names_in(file: str) -> frozenset[str]:
    text = (ROOT / file).read_text("utf-8")
    return frozenset(re.findall(r"^ *(?:async )?def (test_\w+)", text, re.MULTILINE))


@each_row("promise, test", [(promise, test) for promise, shown in PROMISES.items() for test in shown])
def test_what_is_said_to_show_a_promise_is_a_test(promise: str, test: str) -> None:
    file, _, name = test.partition("::")
    assert (ROOT / file).is_file(), f"{promise}: no file {file}"
    assert name in names_in(file), f"{promise}: no test {test}"
