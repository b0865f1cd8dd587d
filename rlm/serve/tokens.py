"""Tokens: who may use the server, and how much of it. Only hashes are stored; a secret is shown once, when it is made.

A secret has 256 random bits, so that a plain hash is enough: nobody can try them all. Every check reads the file again
where it has changed, so that a token that is removed is refused from then on.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ..errors import RlmError
from ..files import FileLock, home, write_atomic

PREFIX = "rlm_"
_SECRET = re.compile(rf"{PREFIX}([0-9a-f]{{12}})_([A-Za-z0-9_-]{{43}})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_VERSION = 1


class TokenError(RlmError):
    """A token cannot be made, changed or removed, or the file of tokens cannot be read."""


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """What the owner of a token may use."""

    sessions: int = 100
    """Sessions that exist at the same time."""

    runs: int = 4
    """Runs, questions of sessions among them, at the same time."""

    input_bytes: int = 64_000_000
    """Bytes of one request, and of everything that is sent to one session or run."""

    run_seconds: float = 600.0
    """The longest run. A shorter `max_duration` of the task holds."""

    day_seconds: float = 14_400.0
    """Seconds of all runs together in 24 hours."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e15:
                raise TokenError(f"{limit.name} must be a number above 0, not {value!r}")


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret."""

    id: str
    """Who it belongs to: sessions and runs are recorded under this id. It stays when the secret is renewed."""

    name: str
    created: float
    limits: TokenLimits = field(default_factory=TokenLimits)
    hash: str = field(default="", repr=False)


def default_path() -> Path:
    """Return the file of the tokens of this machine. It need not exist yet."""
    return home() / "tokens.json"


class Tokens:
    """The tokens in one file. Any thread and any process may use it."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()
        self._guard = threading.Lock()
        self._read: tuple[tuple[int, int, int], dict[str, Token]] | None = None

    def add(self, name: str, limits: TokenLimits | None = None) -> tuple[Token, str]:
        """Make a token, and return it with its secret, which is stored nowhere."""
        if not _NAME.fullmatch(name):
            raise TokenError(f"{name!r} cannot be the name of a token: use letters, digits and . _ @ -, at most 64")
        secret, token_id = secrets.token_urlsafe(32), secrets.token_hex(6)
        token = Token(token_id, name, time.time(), limits or TokenLimits(), _hash(secret))

        def change(tokens: dict[str, Token]) -> None:
            if any(other.name == name for other in tokens.values()):
                raise TokenError(
                    f"there is a token named {name!r} already; `rlm tokens renew {name}` gives a new secret"
                )
            tokens[token_id] = token

        self._change(change)
        return token, f"{PREFIX}{token_id}_{secret}"

    def renew(self, name: str) -> tuple[Token, str]:
        """Return a token with a new secret. The old one is refused from now on; sessions and runs stay."""
        secret = secrets.token_urlsafe(32)
        token = replace(self.named(name), hash=_hash(secret))
        self._change(lambda tokens: tokens.__setitem__(token.id, token))
        return token, f"{PREFIX}{token.id}_{secret}"

    def set_limits(self, name: str, **limits: Any) -> Token:
        """Change limits of a token. They hold from its next request on."""
        token = self.named(name)
        token = replace(token, limits=replace(token.limits, **limits))
        self._change(lambda tokens: tokens.__setitem__(token.id, token))
        return token

    def remove(self, name: str) -> Token:
        """Remove a token. Its sessions and runs stay on the disk, where nobody can reach them through the server."""
        token = self.named(name)
        self._change(lambda tokens: tokens.pop(token.id, None))
        return token

    def named(self, name: str) -> Token:
        """Return the token of this name. Raise `TokenError` where there is none."""
        for token in self.all():
            if token.name == name:
                return token
        raise TokenError(f"there is no token named {name!r}; `rlm tokens list` shows them")

    def all(self) -> list[Token]:
        """Return the tokens in the order in which they were made."""
        return sorted(self._load().values(), key=lambda token: token.created)

    def check(self, secret: str) -> Token | None:
        """Return the token of a secret; None where there is none. It takes the same time for a wrong one."""
        match = _SECRET.fullmatch(secret)
        token_id, text = match.groups() if match is not None else ("", "")
        token = self._load().get(token_id)
        right = hmac.compare_digest(_hash(text), token.hash if token is not None else "0" * 64)
        return token if right and token is not None else None

    def _load(self) -> dict[str, Token]:
        with self._guard:
            try:
                stat = self.path.stat()
            except FileNotFoundError:
                self._read = None
                return {}
            state = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if self._read is None or self._read[0] != state:
                self._read = (state, _parsed(self.path))
            return self._read[1]

    def _change(self, change: Any) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(self.path.with_suffix(".lock")):
            tokens = dict(_parsed(self.path)) if self.path.exists() else {}
            change(tokens)
            listed = [asdict(token) for token in tokens.values()]
            text = json.dumps({"version": _VERSION, "tokens": listed}, indent=2) + "\n"
            write_atomic(self.path, text, mode=0o600)
            os.chmod(self.path, 0o600)  # a file that existed keeps its permissions


def _parsed(path: Path) -> dict[str, Token]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["version"] != _VERSION:
            raise TokenError(f"{path}: written by a later rlm (version {content['version']})")
        return {record["id"]: _token(record) for record in content["tokens"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TokenError(f"{path}: the tokens cannot be read ({type(error).__name__}: {error})") from None


def _token(data: Mapping[str, Any]) -> Token:
    known = {limit.name for limit in fields(TokenLimits)}
    limits = TokenLimits(**{name: value for name, value in data["limits"].items() if name in known})
    return Token(data["id"], data["name"], data["created"], limits, data["hash"])


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
