"""The server and its tools. Each tool is a function of the package `mcp`'s server; the work is in the other modules."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

from mcp.server.mcpserver import Context, ListRoots, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ListRootsResult, ToolAnnotations
from pydantic import Field

from .. import __version__
from ..chat.errors import SessionError
from ..errors import RlmError
from ..models.client import ModelError
from .answers import Answer
from .documents import Folders, NotReadable
from .progress import reported
from .runs import RunTrace, show_run
from .sessions import Sessions, Settings

_INSTRUCTIONS = (
    "Questions about files and folders that are too long for your context: a model writes code over them in a sandbox "
    "and answers with a typed value, evidence (path and line) and how far to trust it. Look at the evidence before you "
    "rely on an answer. `ask` first; `ask_more` for more questions about the same files; `show_run` for what was done."
)
_READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=True)

Question = Annotated[str, Field(description="The question, in words.", min_length=1, max_length=20_000)]
AnswerType = Annotated[
    str,
    Field(description="The type of the answer as in Python: str, int, list[str], dict[str, float], Literal['a', 'b']"),
]
Cite = Annotated[bool, Field(description="Whether the answer must come with quotes, which are looked up in the files.")]


async def _client_roots(ctx: Context[Any, Any]) -> ListRoots | ListRootsResult:
    """Ask the client for its roots, if it has any."""
    return ListRoots() if _has_roots(ctx) else ListRootsResult(roots=[])


def _has_roots(ctx: Context[Any, Any]) -> bool:
    capabilities = ctx.client_capabilities
    return capabilities is not None and capabilities.roots is not None


Roots = Annotated[ListRootsResult, Resolve(_client_roots)]


def make_server(folders: Folders, settings: Settings) -> MCPServer[Sessions]:
    """Return the server. Raise `TaskError` for settings with which no question could be asked."""
    sessions = Sessions(settings)

    @contextlib.asynccontextmanager
    async def lifespan(server: MCPServer[Sessions]) -> AsyncIterator[Sessions]:
        yield sessions

    server = MCPServer(
        "rlm", title="rlm", instructions=_INSTRUCTIONS, version=__version__, lifespan=lifespan, log_level="WARNING"
    )

    def allowed(ctx: Context[Any, Any], roots: ListRootsResult) -> Folders:
        return folders.within([_path(str(root.uri)) for root in roots.roots] if _has_roots(ctx) else None)

    @server.tool(annotations=_READS)
    async def ask(
        question: Question,
        paths: Annotated[list[str], Field(description="Files and folders, whole or below an allowed folder.")],
        ctx: Context[Any, Any],
        roots: Roots,
        answer_type: AnswerType = "str",
        cite: Cite = False,
    ) -> Answer:
        """Answer a question about files or folders of any length."""
        with _told():
            documents = await asyncio.to_thread(allowed(ctx, roots).read, paths)
            async with reported(ctx, sessions.max_iterations) as observe:
                return await sessions.ask(question, documents, answer_type, cite, observe)

    @server.tool(annotations=_READS)
    async def ask_more(
        session_id: Annotated[str, Field(description="From the answer to an earlier question.", max_length=100)],
        question: Question,
        ctx: Context[Any, Any],
        roots: Roots,
        answer_type: AnswerType = "str",
        cite: Cite = False,
    ) -> Answer:
        """Answer a further question about the files of an earlier one. What was found out then is still there."""
        with _told():
            places = allowed(ctx, roots)
            async with reported(ctx, sessions.max_iterations) as observe:
                return await sessions.ask_more(session_id, question, places, answer_type, cite, observe)

    @server.tool(name="show_run", annotations=_READS)
    async def show(
        run_id: Annotated[str, Field(description="From an answer.", max_length=100)],
        ctx: Context[Any, Any],
        roots: Roots,
        first: Annotated[int, Field(description="The first iteration to show.", ge=1)] = 1,
    ) -> RunTrace:
        """Show what was done for an answer: the code of each iteration and what it printed."""
        with _told():
            return await asyncio.to_thread(show_run, run_id, first, sessions, allowed(ctx, roots))

    return server


@contextlib.contextmanager
def _told() -> Any:
    """Turn what is wrong with a call into an error that its caller reads. Anything else stays here."""
    try:
        yield
    except (NotReadable, SessionError, ModelError) as error:
        raise ToolError(str(error)) from None
    except RlmError as error:
        raise ToolError(f"{type(error).__name__}: {error}") from None


def _path(uri: str) -> str:
    """Return the path of a root; one that names nothing for another kind of address."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" and parts.netloc in ("", "localhost") else "/dev/null/none"
