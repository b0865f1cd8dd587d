"""What is redacted, what is not, and that hostile text does not make it slow."""

from __future__ import annotations

import base64
import json
import time

import pytest

from rlm.redaction import MARK, Redactor, is_secret_name, protect

_PEM = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEAxyz+/0\n" * 20 + "-----END RSA PRIVATE KEY-----"


def _jwt() -> str:
    parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": "1234567890", "name": "someone"}, {"signature": "of these"})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "OPENAI_API_KEY_PROD",
        "API_KEY_2",
        "GITHUB_PAT",
        "GH_TOKEN",
        "DB_PASS",
        "MYSQL_PWD",
        "client_secret",
    ],
)
def test_a_variable_is_secret_by_a_word_of_its_name(name: str) -> None:
    assert is_secret_name(name)
    assert Redactor({name: "q7!very-secret"}).text("it is q7!very-secret.") == f"it is {MARK}."


@pytest.mark.parametrize(
    "name",
    ["PATH", "PWD", "MAX_TOKENS", "TOKENIZERS_PARALLELISM", "SSH_KEY_PATH", "KEYBOARD_LAYOUT", "TOKEN_LIMIT", "HOME"],
)
def test_other_variables_are_not(name: str) -> None:
    assert not is_secret_name(name)
    assert Redactor({name: "an ordinary value"}).text("an ordinary value") == "an ordinary value"


def test_short_values_and_plain_numbers_stay() -> None:
    assert Redactor({"A_KEY": "short"}).text("short") == "short"
    assert Redactor({"TOKEN_PRICE": "100000000"}).text("100000000") == "100000000"


def test_the_password_in_a_url_of_the_environment_is_redacted_alone_and_with_it() -> None:
    redactor = Redactor({"DATABASE_URL": "postgres://app:hunter2%21hunter@db.example/app"})
    assert redactor.input("postgres://app:hunter2%21hunter@db.example/app") == MARK
    assert redactor.input("password=hunter2!hunter") == f"password={MARK}"
    assert redactor.input("db.example") == "db.example"
    assert Redactor({"BROKEN": "http://[::1:password@"}).text("nothing") == "nothing"


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcdefghijklmnop0123",
        "gho_" + "a1B2" * 9,
        "ghp_" + "a1B2" * 9,
        "github_pat_" + "a1B2_" * 9,
        "glpat-" + "a1B2-_" * 4,
        "AKIA" + "ABCD" * 4,
        "hf_" + "a1B2" * 9,
        _jwt(),
        _PEM,
        _PEM.replace("RSA ", "ENCRYPTED "),
        json.dumps(_PEM)[1:-1],
        _PEM[:200],
    ],
)
def test_text_with_the_form_of_a_key_is_redacted_but_not_in_inputs(secret: str) -> None:
    redactor = Redactor({})
    assert redactor.text(f"before '{secret}' after") == f"before '{MARK}' after"
    assert redactor.input(f"before {secret} after") == f"before {secret} after"


def test_a_password_in_any_url_is_redacted() -> None:
    text = "see https://user:pass@host/a, https://host:8080/a@b and mailto://a@b"
    assert Redactor({}).text(text) == f"see https://{MARK}@host/a, https://host:8080/a@b and mailto://a@b"


def test_words_that_only_begin_like_a_key_stay() -> None:
    text = "task-force, risk-averse, a disk-drive; sk-short; Bearer of news; hf_small; eyJust.eyJoking.now; ghp_x"
    text += " -----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----"
    assert Redactor({}).text(text) == text


def test_a_value_is_found_in_json_in_python_and_in_a_url() -> None:
    value = 'q7!very"secret\\key é'
    redactor = Redactor({"A_KEY": value})
    for written in (value, json.dumps(value), repr(value), "?key=q7%21very%22secret%5Ckey%20%C3%A9&"):
        assert MARK in redactor.text(written)
        assert "very" not in redactor.text(written)
    assert redactor.data(b"..." + value.encode()) == b"..." + MARK.encode()


def test_protected_values_are_redacted_by_redactors_that_are_there_already() -> None:
    redactor = Redactor({})
    assert redactor.name("value-of-an-odd-variable") == "value-of-an-odd-variable"
    protect("value-of-an-odd-variable", None, "short")
    assert redactor.name("value-of-an-odd-variable") == MARK
    assert redactor.input("short: value-of-an-odd-variable") == f"short: {MARK}"
    assert redactor.data(b"value-of-an-odd-variable") == MARK.encode()


def test_a_secret_across_the_pieces_of_a_search_is_found() -> None:
    secret = "s3cr3t-" * 3
    text = "." * ((1 << 20) - 5) + secret + "." * (1 << 20)
    assert secret not in Redactor({"A_SECRET": secret}).input(text)


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "sk-",
            "sk-a.",
            "Bearer ",
            "Bearer a ",
            "ghp_",
            "glpat-",
            "AKIA",
            "hf_",
            "xoxb-",
            "eyJ",
            "eyJa.",
            "eyJaaaaaaaaa.",
        ),
        *("-", "-----BEGIN ", "-----BEGIN A PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----A-"),
        *("://", "://a:", "://a:b", "a:b@://"),
    ],
)
def test_the_time_is_linear_in_hostile_text(piece: str) -> None:
    redactor = Redactor({})
    texts = (piece * (1_000_000 // len(piece)), piece + "a" * 1_000_000, "eyJaaaaaaaa." + piece * 300_000)
    began = time.process_time()
    for text in texts:
        redactor.text(text)
    assert time.process_time() - began < 10  # about half a second; in quadratic time, hours
