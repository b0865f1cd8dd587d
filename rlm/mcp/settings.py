"""`McpServer`: how a server is started or reached, and what of it a run may use."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from annotated_types import Ge, Gt
from pydantic import BeforeValidator, Strict, WithJsonSchema

from .. import redaction
from ..units import Duration, Size
from .errors import McpServerError

_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,100}")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def _words(value: Any) -> Any:
    return tuple(shlex.split(value)) if isinstance(value, str) else value


_COMMAND = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
Names = Annotated[tuple[str, ...], Strict(False)]


@dataclass(frozen=True, slots=True)
class McpServer:
    """An MCP server: `command` starts one that is spoken to over its standard input and output, `url` names one that is
    spoken to over HTTP."""

    command: Annotated[tuple[str, ...], Strict(False), BeforeValidator(_words), WithJsonSchema(_COMMAND)] = ()
    """The program and its arguments, without a shell. A text is taken apart as a shell would."""

    env: Mapping[str, str] = field(default_factory=dict)
    """Its environment, beside PATH. Secrets do not belong here: see `env_from`."""

    env_from: Names = ()
    """Names of variables that it gets from rlm's own environment. Their values are redacted everywhere."""

    cwd: str | None = None
    """Its working directory, relative to the task file. Default: the folder of the task file."""

    url: str | None = None
    """The address of a server over streamable HTTP."""

    token_env: str | None = None
    """The environment variable that holds the bearer token for `url`."""

    tools: Annotated[tuple[str, ...] | None, Strict(False)] = None
    """The tools that code may call, by their names at the server. Default: all."""

    allow: Names = ()
    """Tools that may change something and need no approval, by their names at the server; `*` is all of them."""

    trust_annotations: bool = True
    """Whether a tool that the server says is read-only needs no approval. That is a claim of the server."""

    approval_timeout: Annotated[Duration, Ge(0)] = 0.0
    """How long a call waits for an approval where nobody is asked at a terminal or by a function, in seconds."""

    timeout: Annotated[Duration, Gt(0)] = 60.0
    """How long one call may take, in seconds."""

    start_timeout: Annotated[Duration, Gt(0)] = 30.0
    """How long the server may take to start and to list its tools, in seconds."""

    max_calls: Annotated[int, Gt(0)] = 1_000
    """Calls in one run, its child runs not included."""

    max_result_bytes: Annotated[Size, Gt(0)] = 1_000_000
    """The largest result of a call, and the largest resource, as JSON."""

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ValueError("an MCP server has either a `command` that starts it or a `url`")
        if self.url is not None:
            _check_url(self.url, self.token_env)
        elif self.token_env is not None:
            raise ValueError("`token_env` is for servers with a `url`; a program gets variables by `env_from`")
        for name in (*self.env, *self.env_from, *filter(None, [self.token_env])):
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of an environment variable")
        if secrets := [name for name in self.env if redaction.is_secret_name(name)]:
            raise ValueError(f"{secrets[0]} seems to be a secret: set it in your environment and name it in `env_from`")

    @classmethod
    def of(cls, value: McpServer | Mapping[str, Any] | Sequence[str] | str) -> McpServer:
        """Return the server that a value describes: a mapping as in a task file, a command as a list, or a URL."""
        if isinstance(value, McpServer):
            return value
        if isinstance(value, Mapping):
            from pydantic import TypeAdapter

            return TypeAdapter(cls).validate_python(dict(value))
        if isinstance(value, str):
            return cls(url=value) if "://" in value else cls(command=tuple(shlex.split(value)))
        return cls(command=tuple(value))

    def allows(self, tool: str) -> bool:
        """Return whether a tool that may change something may be called without an approval."""
        return "*" in self.allow or tool in self.allow

    def offers(self, tool: str) -> bool:
        """Return whether code may call a tool at all."""
        return self.tools is None or tool in self.tools

    def token(self) -> str | None:
        """Return the bearer token. Raise `McpServerError` where its variable is not set."""
        return None if self.token_env is None else _secret(self.token_env)

    def environment(self) -> dict[str, str]:
        """Return the environment of the program: PATH, and what the settings name. Nothing else is passed on."""
        secrets = {name: _secret(name) for name in self.env_from}
        return {"PATH": search_path(), "LANG": "C.UTF-8", **self.env, **secrets}

    def program(self, folder: Path) -> list[str]:
        """Return the command with the program's path. Raise `McpServerError` where there is none."""
        name, *arguments = self.command
        if os.sep in name:
            path = str(folder / Path(name).expanduser())
        else:
            path = shutil.which(name, path=self.env.get("PATH") or search_path()) or ""
        if not path or not os.access(path, os.X_OK):
            raise McpServerError(f"there is no program {name!r}; install it, or write its whole path in `command`")
        return [path, *arguments]


def search_path() -> str:
    """Return where programs are looked for: PATH, and beside the Python that runs rlm."""
    own = str(Path(sys.executable).parent)
    parts = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(parts if own in parts else [*parts, own])


def check_server_name(name: str) -> str:
    """Return the name of a server; raise `ValueError` if functions cannot be named after it."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot name an MCP server: lower-case letters, digits and _, a letter first")
    return name


def _secret(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise McpServerError(f"the environment variable {name}, which the MCP server needs, is not set")
    redaction.protect(value)
    return value


def _check_url(url: str, token_env: str | None) -> None:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError("`url` is not a URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("`url` begins with http:// or https://")
    if "@" in parts.netloc:
        raise ValueError("a URL with a user and password is refused; name the token with `token_env`")
    if token_env is not None and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise ValueError("a token is sent over https:// only, or to this machine")
