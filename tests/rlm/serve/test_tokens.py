"""Tokens: made once, stored as hashes, refused when they are removed."""

from __future__ import annotations

import json
import stat

import pytest

from rlm.errors import TokenError
from rlm.redaction import Redactor
from rlm.serve.tokens import TokenLimits, Tokens


def test_a_secret_is_stored_nowhere(tmp_path):
    tokens = Tokens(tmp_path / "tokens.json")
    token, secret = tokens.add("ann")
    assert tokens.check(secret) == token
    assert secret.rpartition("_")[2] not in tokens.path.read_text()
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600


def test_only_the_whole_secret_is_accepted(tmp_path):
    tokens = Tokens(tmp_path / "tokens.json")
    token, secret = tokens.add("ann")
    other = tokens.add("bob")[1]
    mixed = secret[: len("rlm_") + 13] + other[len("rlm_") + 13 :]
    for wrong in (
        "",
        "rlm_",
        secret[:-1],
        secret + "x",
        secret.upper(),
        token.id,
        token.hash,
        mixed,
        "\ud800",
        f" {secret}",
    ):
        assert tokens.check(wrong) is None, wrong


def test_a_removed_or_renewed_token_is_refused_in_other_processes_at_once(tmp_path):
    tokens, elsewhere = Tokens(tmp_path / "tokens.json"), Tokens(tmp_path / "tokens.json")
    token, secret = tokens.add("ann")
    assert elsewhere.check(secret) is not None
    renewed, new = tokens.renew("ann")
    assert renewed.id == token.id
    assert elsewhere.check(secret) is None
    assert elsewhere.check(new) == renewed
    tokens.remove("ann")
    assert elsewhere.check(new) is None
    with pytest.raises(TokenError, match="no token named 'ann'"):
        tokens.remove("ann")


def test_limits_are_kept_and_changed(tmp_path):
    tokens = Tokens(tmp_path / "tokens.json")
    _, secret = tokens.add("ann", TokenLimits(runs=2))
    tokens.set_limits("ann", sessions=7)
    found = tokens.check(secret)
    assert found is not None
    assert (found.limits.runs, found.limits.sessions, found.limits.run_seconds) == (2, 7, 600.0)


@pytest.mark.parametrize("limits", [{"runs": 0}, {"sessions": -1}, {"run_seconds": float("nan")}, {"runs": True}])
def test_limits_that_are_none_are_refused(limits):
    with pytest.raises(TokenError, match="above 0"):
        TokenLimits(**limits)


def test_names_are_given_once(tmp_path):
    tokens = Tokens(tmp_path / "tokens.json")
    tokens.add("ann")
    with pytest.raises(TokenError, match="already"):
        tokens.add("ann")
    for name in ("", "a b", "../x", "-x", "a" * 65, "a\n"):
        with pytest.raises(TokenError, match="cannot be the name"):
            tokens.add(name)


def test_a_file_that_is_none_is_an_error_and_lets_nobody_in(tmp_path):
    path = tmp_path / "tokens.json"
    _, secret = Tokens(path).add("ann")
    path.write_text("[]")
    with pytest.raises(TokenError, match="cannot be read"):
        Tokens(path).check(secret)
    path.write_text(json.dumps({"version": 2, "tokens": []}))
    with pytest.raises(TokenError, match="later rlm"):
        Tokens(path).check(secret)


def test_secrets_of_tokens_are_redacted_wherever_they_appear(tmp_path):
    secret = Tokens(tmp_path / "tokens.json").add("ann")[1]
    assert Redactor({}).text(f"with {secret}.") == "with [secret]."
