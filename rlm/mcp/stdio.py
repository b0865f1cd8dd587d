"""The transport of servers that are programs: JSON lines over standard input and output.

The transport of the package `mcp` reads lines of any length, and passes parts of the environment on. Here a line and
what is sent unasked are limited, the environment is what the settings say, and standard error is for error messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from .flood import Flooded, FloodGuard, message_limit
from .settings import McpServer

_END_S = 1.0
"""How long a program may take to end after its input has ended, and again after SIGTERM."""

_STDERR_BYTES = 4_000


class Ending:
    """Why and how a program has ended, as far as it is known."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.exit_code: int | None = None
        self.stderr = b""

    def describe(self) -> str:
        """Return it in words, with the last lines of standard error."""
        code = None if self.exit_code is None else f"it has ended with exit code {self.exit_code}"
        return (self.reason or code or "it closed the connection") + "." + self.last_words()

    def last_words(self) -> str:
        """Return the last lines of standard error as a sentence; an empty text where there are none."""
        lines = self.stderr.decode(errors="replace").strip().splitlines()[-3:]
        return f" Its last words: {' | '.join(line.strip()[:300] for line in lines)}." if lines else ""


@contextlib.asynccontextmanager
async def stdio_streams(server: McpServer, folder: Path, guard: FloodGuard, ending: Ending) -> AsyncIterator[Any]:
    """Start the program and yield the streams of its messages; end it and its children afterwards."""
    import anyio

    program, environment = server.program(folder), server.environment()
    process = await asyncio.create_subprocess_exec(
        *_ended_with_us(),
        *program,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        cwd=folder / Path(server.cwd or ".").expanduser(),
        start_new_session=True,
        limit=message_limit(server.max_result_bytes),
    )
    incoming, read_stream = anyio.create_memory_object_stream[Any](0)
    write_stream, outgoing = anyio.create_memory_object_stream[Any](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, process, incoming, guard, ending)
            tasks.start_soon(_write, process, outgoing)
            tasks.start_soon(_keep_stderr, process, ending)
            try:
                yield read_stream, write_stream
            finally:
                tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)
        for stream in (incoming, read_stream, write_stream, outgoing):
            stream.close()
        ending.exit_code = process.returncode


async def _read(process: Any, incoming: Any, guard: FloodGuard, ending: Ending) -> None:
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    async with incoming:
        while True:
            try:
                line = await process.stdout.readline()
                guard.count(len(line))
            except ValueError:  # the line is longer than the limit
                ending.reason = "it sent a message that is longer than what is read"
                break
            except Flooded as error:
                ending.reason = str(error)
                break
            if not line:
                with contextlib.suppress(TimeoutError):
                    ending.exit_code = await asyncio.wait_for(process.wait(), _END_S)
                return
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                continue  # programs print to their standard output by mistake
            try:
                await incoming.send(SessionMessage(message))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return
        _signal(process, signal.SIGKILL)


async def _write(process: Any, outgoing: Any) -> None:
    async for sent in outgoing:
        line = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            process.stdin.write(line.encode() + b"\n")
            await process.stdin.drain()
        except OSError:
            return  # it has ended, which `_read` notices


async def _keep_stderr(process: Any, ending: Ending) -> None:
    """Keep the end of standard error, and read on: a program must not wait for its reader."""
    while text := await process.stderr.read(65_536):
        ending.stderr = (ending.stderr + text)[-_STDERR_BYTES:]


async def _end(process: Any) -> None:
    """Close the program's input and wait; then end it with everything in its process group."""
    with contextlib.suppress(OSError):
        process.stdin.close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            await asyncio.wait_for(process.wait(), _END_S)
            break
        except TimeoutError:
            _signal(process, number)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _END_S)
    _signal(process, signal.SIGKILL)  # children that it left behind
    process._transport.close()  # its pipes, which such a child may hold


def _signal(process: Any, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


@functools.cache
def _ended_with_us() -> tuple[str, ...]:
    """Return a prefix with which a program is killed when this process ends in whatever way, where there is one."""
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    if setpriv is None:
        return ()
    command = (setpriv, "--pdeathsig", "KILL")
    tried = subprocess.run([*command, "true"], capture_output=True, timeout=10, check=False)
    return command if tried.returncode == 0 else ()
