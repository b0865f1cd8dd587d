"""The process of a command: its environment, working directory, time, and what is read of its output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from ...text import shorten
from .programs import CommandSpec
from .replies import CommandFailure, kind_of

MAX_OUTPUT_BYTES = 8_000_000
MAX_ERROR_BYTES = 64_000
_CHUNK = 65_536
_PLACEHOLDER = re.compile(r"\{(?:prompt|system|model)\}")
_END_S = 5.0
"""How long the end of a process that was killed is waited for: one that left its group may hold its pipes."""

# What a program needs to find its files, its proxy and its certificates. No key is among them.
_COMMON = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"),
)


@dataclass(frozen=True, slots=True)
class Output:
    """What a command printed."""

    stdout: str
    stderr: str


async def run_command(spec: CommandSpec, prompt: str, system: str, timeout: float) -> Output:
    """Run a command once in an empty directory, and return what it printed. Raises `CommandFailure`."""
    with _folder(spec, system) as folder:
        argv = _arguments(spec, prompt, system)
        stdin = b"" if any("{prompt}" in part for part in spec.argv) else prompt.encode()
        async with _process(argv, folder, _environment(spec, folder)) as process:
            try:
                async with asyncio.timeout(timeout):
                    stdout, stderr = await _communicate(process, stdin)
            except TimeoutError:
                raise CommandFailure("timeout", f"no answer in {timeout:g} seconds") from None
    if process.returncode and not stdout.strip():
        raise _failure(process.returncode, stderr)
    return Output(stdout, stderr)


def _arguments(spec: CommandSpec, prompt: str, system: str) -> list[str]:
    values = {"{prompt}": prompt, "{system}": system, "{model}": spec.model}
    parts = spec.argv + (spec.model_option if spec.model else ())
    return [_filled(part, values) for part in parts]


def _filled(part: str, values: dict[str, str]) -> str:
    """Return a part of the command with its placeholders filled; those in a value stay as they are."""
    return _PLACEHOLDER.sub(lambda found: values[found[0]], part)


def _environment(spec: CommandSpec, folder: str) -> dict[str, str]:
    names = (*_COMMON, *spec.env)
    given = {name: os.environ[name] for name in names if name in os.environ}
    settings = {name: text.replace("{folder}", folder) for name, text in spec.settings.items()}
    return {**given, "TERM": "dumb", "NO_COLOR": "1", **settings}


@contextlib.contextmanager
def _folder(spec: CommandSpec, system: str) -> Iterator[str]:
    """Make the working directory, with the files of the program alone, and remove it afterwards."""
    folder = tempfile.mkdtemp(prefix="rlm-command-")
    try:
        for name, text in spec.files.items():
            Path(folder, name).write_text(text.replace("{system}", system), encoding="utf-8")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.asynccontextmanager
async def _process(
    argv: list[str], folder: str, environment: dict[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a process in a group of its own, and end the group."""
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder, env=environment, start_new_session=True
        )
    except FileNotFoundError:
        raise CommandFailure("model", f"the program {argv[0]!r} is not installed, or not on PATH") from None
    except PermissionError:
        raise CommandFailure("model", f"the program {argv[0]!r} may not be executed") from None
    except OSError as error:
        raise CommandFailure("context", f"the program {argv[0]!r} could not be started: {error.strerror}") from None
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also what it has left running
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await _drain(process)
                await process.wait()


async def _communicate(process: asyncio.subprocess.Process, stdin: bytes) -> tuple[str, str]:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    parts = (_write(process.stdin, stdin), _read_all(process.stdout), _read_end(process.stderr))
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        _, stdout, stderr = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(stdout, bytes)
    assert isinstance(stderr, bytes)
    await process.wait()
    return stdout.decode("utf-8", "replace"), stderr.decode("utf-8", "replace")


async def _drain(process: asyncio.subprocess.Process) -> None:
    """Read what is left of a process that was ended: asyncio waits for its pipes as well as for itself."""
    for stream in (process.stdout, process.stderr):
        while stream is not None and await stream.read(_CHUNK):
            pass


async def _write(stream: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a program need not read all of it
        stream.write(data)
        await stream.drain()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stream.close()
        await stream.wait_closed()


async def _read_all(stream: asyncio.StreamReader) -> bytes:
    data = bytearray()
    while chunk := await stream.read(_CHUNK):
        data += chunk
        if len(data) > MAX_OUTPUT_BYTES:
            raise CommandFailure("server", f"it printed more than {MAX_OUTPUT_BYTES // 1_000_000} MB")
    return bytes(data)


async def _read_end(stream: asyncio.StreamReader) -> bytes:
    """Read a stream to its end, and return the end of it."""
    data = bytearray()
    while chunk := await stream.read(_CHUNK):
        data += chunk
        del data[:-MAX_ERROR_BYTES]
    return bytes(data)


def _failure(code: int, stderr: str) -> CommandFailure:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    said = shorten(" ".join(lines[-3:]), 400)
    ended = f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return CommandFailure(kind_of(said), f"{ended}: {said}" if said else f"{ended} and printed nothing")
