"""Settings: which source wins, how a wrong value is refused, and that secrets stay secret."""

import os
from pathlib import Path

import pytest

from graphrag.config import SettingsError, load_settings, setting_fields
from tests.docs.program import settings_table


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty working directory, and an environment without settings."""
    for name in list(os.environ):
        if name.startswith(("NODIUS_", "OPENAI_", "ANTHROPIC_", "DEEPSEEK_")) or name == "AI_DEBUG":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_anything_the_defaults_hold() -> None:
    settings = load_settings()
    assert settings.db == "sqlite:.nodius/nodius.db"
    assert settings.embeddings == "auto"
    assert settings.mode == "hybrid"
    assert settings.embedder.api_key is None
    assert settings.key_of("OPENAI_API_KEY") is None


def test_flag_beats_environment_beats_file_beats_default(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_settings().workspace == "default"
    (folder / "nodius.toml").write_text('workspace = "file"\nmax_nodes = 7\n')
    assert load_settings().workspace == "file"
    monkeypatch.setenv("NODIUS_WORKSPACE", "environment")
    assert load_settings().workspace == "environment"
    settings = load_settings(workspace="flag")
    assert (settings.workspace, settings.max_nodes) == ("flag", 7)


def test_another_file_can_be_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "nodius.toml").write_text('workspace = "usual"')
    (folder / "other.toml").write_text('workspace = "other"')
    monkeypatch.setenv("NODIUS_CONFIG", str(folder / "other.toml"))
    assert load_settings().workspace == "other"


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "NODIUS_EMBEDDINGS_API_KEY"])
def test_a_key_is_read_from_its_variable_and_never_shown(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "sk-very-secret")
    settings = load_settings()
    key = settings.key_of(variable) or settings.embedder.api_key
    assert key.get_secret_value() == "sk-very-secret"
    for shown in (
        repr(settings),
        str(settings),
        str(settings.model_dump()),
        settings.model_dump_json(),
    ):
        assert "very-secret" not in shown


def test_the_embedding_address_may_come_from_the_usual_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert load_settings().embedder.base_url == "http://127.0.0.1:1/v1"
    monkeypatch.setenv("NODIUS_EMBEDDINGS_BASE_URL", "http://127.0.0.1:2/v1")
    assert load_settings().embedder.base_url == "http://127.0.0.1:2/v1"


@pytest.mark.parametrize("variable", ["AI_DEBUG", "NODIUS_AI_DEBUG"])
def test_debugging_is_turned_on_by_either_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    assert load_settings().ai_debug is True


def test_a_wrong_flag_names_itself_and_what_is_allowed() -> None:
    with pytest.raises(SettingsError, match="'hybrid', 'vector' or 'text'") as caught:
        load_settings(mode="fast")
    assert (caught.value.name, caught.value.origin) == ("mode", "given on the command line")


@pytest.mark.parametrize(
    ("variable", "value", "name", "allowed"),
    [
        ("NODIUS_LANGUAGE", "de", "language", "'en' or 'fr'"),
        ("NODIUS_MAX_NODES", "many", "max_nodes", "valid integer"),
        ("NODIUS_MAX_NODES", "0", "max_nodes", "greater than or equal to 1"),
        ("NODIUS_MIN_COSINE", "nan", "min_cosine", "less than or equal to 1"),
        ("NODIUS_CACHE_TTL_S", "-1", "cache_ttl_s", "greater than or equal to 0"),
        ("NODIUS_WORKSPACE", "", "workspace", "at least 1 character"),
        ("AI_DEBUG", "perhaps", "ai_debug", "valid boolean"),
        ("NODIUS_AUTH_SECRET", "short", "auth_secret", "must have at least 32 characters"),
        ("NODIUS_OIDC_ROLES", "groups=admin", "oidc_roles", "write it as JSON"),
        (
            "NODIUS_OIDC_ROLES",
            '{"groups": {"staff": "boss"}}',
            "oidc_roles",
            "'reviewer' or 'admin'",
        ),
    ],
)
def test_a_wrong_variable_is_named_with_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, name: str, allowed: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError, match=allowed) as caught:
        load_settings()
    assert (caught.value.name, caught.value.origin) == (name, f"environment variable {variable}")


def test_a_wrong_value_in_the_file_names_the_file(folder: Path) -> None:
    (folder / "nodius.toml").write_text('embeddings = "cloud"')
    with pytest.raises(SettingsError, match="'multilingual', 'openai' or 'none'") as caught:
        load_settings()
    assert (caught.value.name, caught.value.origin) == ("embeddings", "file nodius.toml")


def test_a_setting_nobody_knows_is_refused_in_the_file_and_as_a_flag(folder: Path) -> None:
    with pytest.raises(SettingsError, match=r"'colour'.*no setting has this name$"):
        load_settings(colour="red")
    (folder / "nodius.toml").write_text("max_node = 3")
    expected = (
        r"'max_node' \(file nodius\.toml\): no setting has this name; did you mean max_nodes\?"
    )
    with pytest.raises(SettingsError, match=expected):
        load_settings()
    (folder / "nodius.toml").write_text("[llm]\nbase_ulr = 'y'")
    with pytest.raises(SettingsError, match="did you mean llm_base_url"):
        load_settings()


@pytest.mark.parametrize("content", [b"workspace = ", b"\xff\xfe", b"a = 1\na = 2"])
def test_a_file_that_is_not_toml_is_named(folder: Path, content: bytes) -> None:
    (folder / "nodius.toml").write_bytes(content)
    with pytest.raises(SettingsError, match=r"\(nodius\.toml\)"):
        load_settings()


def test_a_named_file_that_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODIUS_CONFIG", "absent.toml")
    with pytest.raises(SettingsError, match=r"no file absent\.toml"):
        load_settings()


def test_a_wrong_secret_is_not_repeated(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "nodius.toml").write_text('openai_api_key = ["sk-very-secret"]')
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert caught.value.name == "openai_api_key"
    assert "very-secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_setting_of_a_group_is_given_by_its_flat_name_or_in_a_table(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    (folder / "nodius.toml").write_text(
        'llm_silence_s = 7\nllm_total_s = 8\nllm_temperature = 1\n[oidc]\nclient_id = "page"\n'
    )
    monkeypatch.setenv("NODIUS_LLM_TOTAL_S", "9")
    monkeypatch.setenv("nodius_llm_temperature", "0.5")
    settings = load_settings(llm_temperature=0.25)
    assert (settings.llm.silence_s, settings.llm.total_s, settings.llm.temperature) == (7, 9, 0.25)
    assert settings.oidc.client_id == settings.value_of("oidc_client_id") == "page"
    assert settings.is_set("llm_total_s")
    assert not settings.is_set("llm_max_tokens")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("llm_total_s = 0", "llm_total_s"),
        ("[llm]\ntotal = 1", "llm_total"),
        ("llm_x = 1", "llm_x"),
        ("llm = 3\nllm_total_s = 5", "llm"),
        ("provider_keys = 3\nopenai_api_key = 'x'", "provider_keys"),
        ("agent_secrets = 3", "agent_secrets"),
    ],
)
def test_a_wrong_setting_of_a_group_is_named_as_it_is_given(
    folder: Path, given: str, name: str
) -> None:
    (folder / "nodius.toml").write_text(given)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert caught.value.name == name
    assert "nodius.toml" in caught.value.origin


@pytest.mark.parametrize("variable", ["NODIUS_LLM", "NODIUS_VOICE", "NODIUS_AGENT_SECRETS"])
def test_a_variable_named_like_a_group_is_no_setting(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    without = load_settings()
    monkeypatch.setenv(variable, '{"max_calls": 1')
    assert load_settings() == without


@pytest.mark.parametrize(
    ("variable", "value", "name"),
    [
        ("nodius_llm_total_s", "x", "llm_total_s"),
        ("NODIUS_OIDC_ISSUER", "login.example.com", "oidc_issuer"),
        ("NODIUS_AUTH_SECRET", "short", "auth_secret"),
        ("NODIUS_MAX_CALL_TOKENS", "0", "max_call_tokens"),
    ],
)
def test_a_wrong_variable_of_a_group_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, name: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    expected = f"environment variable {variable.upper()}"
    assert (caught.value.name, caught.value.origin) == (name, expected)


def test_an_unprefixed_variable_is_not_blamed_for_the_file(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("HOST", "elsewhere")
    (folder / "nodius.toml").write_text("host = ''")
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert (caught.value.name, caught.value.origin) == ("host", "file nodius.toml")


def test_the_table_tells_every_setting_and_its_variable_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = settings_table()
    assert [row[0] for row in table] == list(setting_fields())
    assert all(meaning for *_, meaning in table)
    others = {
        "language": "fr",
        "deciders": "four-eyes",
        "require_validation": "delete",
        "embeddings": "none",
        "mode": "text",
        "log_level": "debug",
        "ai_debug": "true",
        "budget_tokens": "101",
        "llm_base_url": "http://127.0.0.1:1/v1",
        "llm_api": "responses",
        "llm_context_window": "2000",
        "auth_secret": "s" * 32,
        "max_body_bytes": "2048",
        "block_tokens": "200",
        "first_day": "sunday",
        "timezone": "Europe/Paris",
        "automations_yield": "false",
        "notify_url": "http://127.0.0.1:1/notices",
        "notify_digest_at": "07:00",
        "notify_mail_from": "nodius@example.com",
        "oidc_issuer": "https://login.example.com",
        "oidc_scopes": "openid groups",
        "oidc_roles": '{"groups": {"staff": "editor"}}',
        "oidc_workspaces": '{"groups": {"staff": "work"}}',
        "public_url": "https://voice.example.com",
        "twilio_shared_keys": "SK1=secret",
        "realtime": "double",
        "realtime_url": "ws://127.0.0.1:1/v1",
    }
    for name, variable, default, _ in table:
        with monkeypatch.context() as patch:
            patch.setenv(variable, others.get(name, "1"))
            assert str(load_settings().value_of(name)) != default


def test_a_folder_in_place_of_the_file_is_no_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODIUS_CONFIG", str(folder))
    with pytest.raises(SettingsError, match="no file"):
        load_settings()


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings().mode = "text"
