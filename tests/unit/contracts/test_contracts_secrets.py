"""Which variables are hidden when an environment is shown."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.contract_helpers import setting, two_by_two
from umiak import contracts
from umiak.core.cluster import Role


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "GITHUB_TOKEN",
        "token",
        "NPM_TOKENS",
        "HFTOKEN",
        "UMIAK_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "SECRET",
        "secretKeyBase",
        "CLIENT_SECRETS",
        "PGPASSWORD",
        "DB_PASSWORD",
        "MYSQL_PWD",
        "PASSWD",
        "DB_PASS",
        "KEY_PASSPHRASE",
        "PASS_PHRASE",
        "API_KEY",
        "OPENAI_API_KEY",
        "WANDB_API_KEY",
        "apiKey",
        "SSHKEY",
        "KEY",
        "SIGNING_KEYS",
        "TLS_KEY_FILE",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "CREDENTIAL",
        "SSH_AUTH_SOCK",
        "DOCKER_AUTH_CONFIG",
        "OAUTH",
        "BASICAUTH",
        "AUTHORIZATION",
        "PRIVATE_THING",
        "ACCESS_ID",
        "REQUEST_SIGNATURE",
        "SESSION_COOKIE",
        "COOKIES",
        "SENTRY_DSN",
        "AZURE_SAS",
        "FS_UGI",
    ],
)
def test_secret_names(name: str) -> None:
    assert contracts.redacted({name: "x"}) == {name: "***"}


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "HOME",
        "PWD",
        "OLDPWD",
        "KEYBOARD",
        "KEYBOARD_LAYOUT",
        "TOKENIZERS_PARALLELISM",
        "GIT_AUTHOR_NAME",
        "XAUTHORITY",
        "PASSENGER",
        "COMPASS",
        "CUDA_VISIBLE_DEVICES",
        "OMP_NUM_THREADS",
        "MASTER_ADDR",
        "NCCL_SOCKET_IFNAME",
        "PIN_MEMORY",
        "SSL_CERT_FILE",
        "DESKTOP_SESSION",
    ],
)
def test_harmless_names(name: str) -> None:
    assert contracts.redacted({name: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    "text",
    [
        "postgres://user:hunter2@db/app",
        "http://user:hunter2@proxy:3128",
        "https://ghp0hunter2@github.com/a/b",
        "user:hunter2@tcp(db)/app",
        "hosts: http://a,http://u:hunter2@b",
        "redis://:p@ss/w@host",
        "https://bucket/x?X-Amz-Signature=hunter2",
        '{"password": "hunter2"}',
        '{"token": "hunter2"}',
        "Authorization=Bearer hunter2",
        "-----BEGIN RSA PRIVATE KEY-----\nhunter2",
        "ghp_hunter2hunter2hunter2",
        "eyJhbGciOiJIUzI1NiJ9.hunter2",
    ],
)
def test_secret_values_under_an_innocent_name(text: str) -> None:
    assert contracts.redacted({"SERVICE": text}) == {"SERVICE": "***"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/usr/bin:/bin",
        "http://proxy:3128",
        "etcd://10.0.0.1:2379",
        "[fd00::1]:7999",
        "a@b",
        "@im=ibus",
        "Asia/Shanghai",
        "0,1,2",
    ],
)
def test_harmless_values(text: str) -> None:
    assert contracts.redacted({"SERVICE": text}) == {"SERVICE": text}


def test_a_contract_can_be_shown_whole() -> None:
    formed = two_by_two()
    contract = contracts.environment(formed, formed.seats(Role.TRAINER)[0], setting())
    assert contracts.redacted(contract) == contract


letters = st.text(string.ascii_letters + string.digits, max_size=8)
secret_word = st.sampled_from(
    [
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "KEY",
        "CREDENTIAL",
        "AUTH",
        "PRIVATE",
        "ACCESS",
        "SIGNATURE",
        "COOKIE",
        "DSN",
        "API_KEY",
    ]
)
texts = st.text(min_size=4, max_size=40)


@given(before=letters, word=secret_word, lower=st.booleans(), after=letters, text=texts)
def test_a_secret_word_anywhere_in_a_name_hides_the_value(
    before: str, word: str, lower: bool, after: str, text: str
) -> None:
    name = "_".join(part for part in (before, word.lower() if lower else word, after) if part)
    assert contracts.redacted({name: text}) == {name: "***"}


@given(user=letters, password=st.text("abcdefXYZ0189/:@%", min_size=1), host=letters)
def test_a_password_in_a_url_is_hidden(user: str, password: str, host: str) -> None:
    assert contracts.redacted({"URL": f"scheme://{user}:{password}@{host}"}) == {"URL": "***"}


@given(st.dictionaries(st.text(min_size=1, max_size=12), st.text(max_size=30)))
def test_names_and_order_stay_and_a_second_time_changes_nothing(environ: dict[str, str]) -> None:
    once = contracts.redacted(environ)
    assert list(once) == list(environ)
    assert all(text in (environ[name], "***") for name, text in once.items())
    assert contracts.redacted(once) == once
