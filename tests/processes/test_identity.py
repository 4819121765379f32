"""Child processes start without keys."""

import pytest

from videomme_pipeline.processes.identity import child_environment, register_key_variables


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENAI_API_KEY", "sk-1"),
        ("HF_TOKEN", "hf_1"),
        ("my_key", "1"),
        ("SMTP_PASSWORD", "1"),
        ("CLIENT_SECRET_OF_MINE", "1"),
        ("VIDEOMME_ALERT_URLS", "slack://a/b/c"),
        ("VIDEOMME_POSTGRES_URL", "postgresql://me:pass@db/dagster"),
        ("HTTPS_PROXY", "http://me:pass@proxy:8080"),
        ("REGISTERED", "1"),
        ("registered_in_lower_case", "1"),
    ],
)
def test_a_variable_with_a_secret_is_removed(name: str, value: str) -> None:
    register_key_variables(["REGISTERED", "registered_in_lower_case"])
    assert child_environment({name: value}) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PATH", "/usr/bin:/bin"),
        ("HTTPS_PROXY", "http://proxy:8080"),
        ("VIDEOMME_DATA", "s3://bucket/folder"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("KEYBOARD", "us"),
        ("AWS_SECRET_ACCESS_KEY", "needed to store frames"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/key.json"),
    ],
)
def test_every_other_variable_is_kept(name: str, value: str) -> None:
    assert child_environment({name: value}) == {name: value}
