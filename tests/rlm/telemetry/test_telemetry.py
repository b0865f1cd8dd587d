"""Spans of real runs, sent by OTLP/HTTP and read where they arrive: a server in this process."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.replies import cell

pytest.importorskip("opentelemetry.sdk")
import dspy
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import rlm.telemetry
import sandbox
from rlm.budgets import FallbackTrigger
from rlm.models.scripted import scripted_lm
from rlm.repl.config import RunConfig
from rlm.signatures import Signature
from rlm.telemetry.attributes import MAX_CHARS, model
from tests.support.events import make_event
from tests.support.repository import EXAMPLES

ERROR = 2
CLIENT = 3


@dataclass(frozen=True)
class Sent:
    """A span as it arrived."""

    name: str
    id: bytes
    parent: bytes
    trace: bytes
    kind: int
    seconds: float
    status: int
    message: str
    attributes: dict[str, Any]


class Receiver(ThreadingHTTPServer):
    """An OTLP/HTTP receiver for spans."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Sent] = []
        self.resources: list[dict[str, Any]] = []
        self.scopes: set[str] = set()
        self.endpoint = f"http://127.0.0.1:{self.server_port}"

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            self.resources.append(_attributes(resource.resource.attributes))
            for scope in resource.scope_spans:
                self.scopes.add(scope.scope.name)
                self.spans += [_sent(span) for span in scope.spans]

    def named(self, name: str) -> list[Sent]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> Sent:
        (span,) = self.named(name)
        return span

    def under(self, parent: Sent) -> list[str]:
        return [span.name for span in self.spans if span.parent == parent.id]


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        assert self.path == "/v1/traces"
        self.server.take(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


def _sent(span: Any) -> Sent:
    seconds = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
    ids = (span.span_id, span.parent_span_id, span.trace_id)
    status = (span.status.code, span.status.message)
    return Sent(span.name, *ids, span.kind, seconds, *status, _attributes(span.attributes))


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def provider(receiver: Receiver) -> Iterator[TracerProvider]:
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{receiver.endpoint}/v1/traces")))
    yield made
    made.shutdown()


Run = Callable[..., Any]


@pytest.fixture
def run(provider: TracerProvider, pool: sandbox.Pool) -> Run:
    """Runs a script with spans, and waits until they were sent."""

    def run_one(replies: Any, *, signature: Any = "doc -> n: int", content: bool | None = None, **options: Any) -> Any:
        observe = rlm.telemetry.spans(provider, content=content)
        limit = FallbackTrigger(max_iterations=options.pop("max_iterations", 10))
        models = [scripted_lm(replies, name="openai/gpt-4o-mini"), scripted_lm({"*": "yes"}, name="xai/small")]
        extraction = scripted_lm(options.pop("extraction", []), name="local")
        made = RunConfig(
            Signature.of(signature), *models, extraction, trigger=limit, observe=observe, pool=pool, **options
        )
        result = asyncio.run(made.run({"doc": "the text of the input"}))
        assert observe.flush()
        return result

    return run_one


def test_a_run_its_model_calls_cells_and_host_calls_are_a_tree(run: Run, receiver: Receiver) -> None:
    result = run(
        [cell("print(llm_query('Is it so?'))"), cell("1 / 0"), cell("SUBMIT(n=1)")], task={"path": "a/count.yaml"}
    )
    agent = receiver.one("invoke_agent count")
    assert receiver.scopes == {"rlm"}
    assert agent.parent == b""
    assert {span.trace for span in receiver.spans} == {agent.trace}
    chats = ["chat gpt-4o-mini"] * 3
    assert sorted(receiver.under(agent)) == chats + ["execute_tool python"] * 3
    assert agent.status != ERROR
    told = agent.attributes
    assert told["gen_ai.operation.name"] == "invoke_agent"
    assert (told["gen_ai.agent.name"], told["gen_ai.conversation.id"]) == ("count", result.run_id)
    assert (told["gen_ai.provider.name"], told["gen_ai.request.model"]) == ("openai", "gpt-4o-mini")
    assert (told["rlm.signature"], told["rlm.ending"], told["rlm.confidence"]) == ("doc -> n", "submitted", 1.0)
    usage = result.usage
    assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == (
        usage.tokens_in,
        usage.tokens_out,
    )

    calls = [span for span in receiver.spans if span.attributes["gen_ai.operation.name"] == "chat"]
    assert sum(span.attributes["gen_ai.usage.input_tokens"] for span in calls) == usage.tokens_in
    assert {span.kind for span in calls} == {CLIENT}
    assert all(span.attributes["gen_ai.response.finish_reasons"] == ["stop"] for span in calls)

    first, second, last = receiver.named("execute_tool python")
    assert receiver.under(first) == ["execute_tool llm_query"]
    asked = receiver.one("execute_tool llm_query")
    assert receiver.under(asked) == ["chat small"]
    sub = receiver.one("chat small").attributes
    assert (sub["gen_ai.provider.name"], sub["rlm.role"], sub["rlm.iteration"]) == ("x_ai", "sub", 1)
    assert first.seconds >= asked.seconds >= receiver.one("chat small").seconds > 0
    assert agent.seconds >= first.seconds + second.seconds + last.seconds
    assert (second.status, second.attributes["error.type"]) == (ERROR, "ZeroDivisionError")
    assert receiver.under(last) == ["execute_tool SUBMIT"]


def test_content_is_sent_only_on_request(run: Run, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    replies = [cell("print(doc, llm_query('secret plan'))"), cell("raise ValueError(doc)"), cell("SUBMIT(n=77123)")]
    run(replies)
    quiet = str(receiver.spans)
    for word in ("I go on", "the text of the input", "secret plan", "77123", "print"):
        assert word not in quiet
    assert all("messages" not in name for span in receiver.spans for name in span.attributes)

    receiver.spans.clear()
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "span_only")
    monkeypatch.setenv("HARBOUR_API_KEY", "secret plan")
    run(replies)
    (agent,) = (span for span in receiver.spans if not span.parent)
    assert json.loads(agent.attributes["gen_ai.output.messages"])[0]["parts"][0]["content"] == '{"n": 77123}'
    main = receiver.named("chat gpt-4o-mini")
    before = [json.loads(span.attributes["gen_ai.input.messages"]) for span in main]
    assert [len(turns) for turns in before] == [1, 3, 5]  # whole, though only what was added is told
    assert before[2][3] == {"role": "assistant", "parts": [{"type": "text", "content": replies[1]}]}
    said = json.loads(main[0].attributes["gen_ai.output.messages"])
    assert said == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "I go on.\n```python\nprint(doc, llm_query('[secret]'))\n```"}],
            "finish_reason": "stop",
        }
    ]
    assert "SUBMIT" in json.loads(main[0].attributes["gen_ai.system_instructions"])[0]["content"]
    first, second, _ = receiver.named("execute_tool python")
    assert json.loads(first.attributes["gen_ai.tool.call.arguments"]) == {"code": "print(doc, llm_query('[secret]'))"}
    assert first.attributes["gen_ai.tool.call.result"] == "the text of the input yes"
    assert second.message == "the text of the input"
    assert "secret plan" not in str(receiver.spans)


def test_child_runs_are_under_the_call_that_started_them(run: Run, receiver: Receiver) -> None:
    ask = cell("print(rlm_query('text -> answer: str', text='part of it'))")
    result = run({"'answer': 'yes'": cell("SUBMIT(n=1)"), "part of it": cell("SUBMIT(answer='yes')"), "*": ask})
    assert result.outputs is not None, result
    assert result.outputs.n == 1
    child = next(span for span in receiver.named("invoke_agent") if span.parent)
    assert child.attributes["rlm.signature"] == "text -> answer"
    assert child.attributes["rlm.depth"] == 1
    assert child.parent == receiver.one("execute_tool rlm_query").id
    assert sorted(receiver.under(child)) == ["chat gpt-4o-mini", "execute_tool python"]
    assert len({span.trace for span in receiver.spans}) == 1


def test_a_run_that_is_extracted_says_why_and_one_that_fails_is_an_error(run: Run, receiver: Receiver) -> None:
    run({"*": cell("n = 3\nprint(n)")}, max_iterations=1, extraction=["no json", '{"n": 3}'])
    told = receiver.one("invoke_agent").attributes
    assert (told["rlm.ending"], told["rlm.trigger"], told["rlm.extraction_attempts"]) == (
        "extracted",
        "max_iterations",
        2,
    )
    assert 0 < told["rlm.confidence"] < 1
    assert [span.attributes["gen_ai.provider.name"] for span in receiver.named("chat local")] == ["unknown"] * 2
    receiver.spans.clear()

    run([cell("print(1)")])  # the script ends: the model cannot be asked
    agent = receiver.one("invoke_agent")
    assert (agent.status, agent.message, agent.attributes["rlm.ending"]) == (ERROR, "", "failed")
    assert agent.attributes["error.type"].startswith("model:")
    *_, failed = receiver.named("chat gpt-4o-mini")
    assert failed.status == ERROR
    assert f"model:{failed.attributes['error.type']}" == agent.attributes["error.type"]


async def test_a_run_is_part_of_the_span_around_it(
    receiver: Receiver, provider: TracerProvider, pool: sandbox.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)  # as if the program had set it
    observe = rlm.telemetry.spans()
    count = rlm.Predict("doc -> n: int", observe=observe, pool=pool)
    with dspy.context(lm=scripted_lm({"*": cell("SUBMIT(n=1)")})):
        with provider.get_tracer("the program").start_as_current_span("request"):
            await count.arun_with_fallback(doc="x")
        with provider.get_tracer("the program").start_as_current_span("from a thread"):
            count.run_with_fallback(doc="x")  # a loop is running here, so it is run in another thread
    assert observe.flush()
    parents = [span.parent for span in receiver.named("invoke_agent")]
    assert parents == [receiver.one("request").id, receiver.one("from a thread").id]


def test_what_is_open_when_a_run_is_interrupted_ends_with_it(receiver: Receiver, provider: TracerProvider) -> None:
    observe = rlm.telemetry.spans(provider)
    observe(make_event("run_started", "r", {"signature": {"name": "Read"}}, 10.0))
    observe(make_event("model_asked", "r", {"id": 1, "role": "main", "model": "openai/x", "turns": []}, 11.0))
    observe(make_event("run_interrupted", "r", {}, 14.0))
    observe(make_event("model_answered", "r", {"id": 1, "text": "too late"}, 15.0))
    assert observe.flush()
    chat, agent = receiver.one("chat x"), receiver.one("invoke_agent Read")
    assert (chat.seconds, chat.attributes["error.type"]) == (3.0, "cancelled")
    assert (agent.seconds, agent.attributes["error.type"]) == (4.0, "interrupted")


def test_hostile_and_large_texts_do_not_stop_the_spans(receiver: Receiver, provider: TracerProvider) -> None:
    observe = rlm.telemetry.spans(provider, content=True)
    observe(make_event("run_started", "r", {"signature": {"name": "lone \udc80"}}, 1.0))
    observe(make_event("cell_started", "r", {"iteration": 1, "code": "\udc80\x00" + "x" * 10_000_000}, 2.0))
    error = {"name": "E" * 5_000, "message": "\udfff"}
    observe(make_event("cell_ended", "r", {"iteration": 1, "output": "\ud800", "error": error}, 3.0))
    observe(make_event("run_ended", "r", {"ending": "Failed", "result": {"outputs": {"n": "\udc80"}}}, 4.0))
    assert observe.flush()
    python = receiver.one("execute_tool python")
    assert len(python.attributes["gen_ai.tool.call.arguments"]) < MAX_CHARS + 200
    assert json.loads(python.attributes["gen_ai.tool.call.arguments"])["code"].startswith("\\udc80\x00xx")
    assert (python.attributes["error.type"], python.message) == ("_OTHER", "\\udfff")
    assert receiver.one("invoke_agent lone \\udc80").attributes["rlm.ending"] == "failed"


def test_what_a_past_run_was_answered_is_no_model_call(receiver: Receiver, provider: TracerProvider) -> None:
    observe = rlm.telemetry.spans(provider)
    observe(make_event("run_started", "r", {"resumed_from": "q"}, 1.0))
    observe(make_event("model_answered", "r", {"id": 1, "iteration": 1, "text": "x", "past": True}, 2.0))
    observe(make_event("run_ended", "r", {"ending": "Submitted"}, 3.0))
    assert observe.flush()
    (agent,) = receiver.spans
    assert agent.attributes["rlm.resumed_from"] == "q"


@pytest.mark.parametrize(
    ("name", "provider", "rest"),
    [
        ("anthropic/claude-x", "anthropic", "claude-x"),
        ("azure/mine", "azure.ai.openai", "mine"),
        ("hosted_vllm/meta/llama", "hosted_vllm", "meta/llama"),
        ("smollm2", "unknown", "smollm2"),
    ],
)
def test_providers_have_the_names_of_the_conventions(name: str, provider: str, rest: str) -> None:
    assert model(name) == {"gen_ai.provider.name": provider, "gen_ai.request.model": rest}


@pytest.mark.processes
def test_the_command_sends_spans_when_the_environment_says_so(receiver: Receiver, tmp_path: Path) -> None:
    task = EXAMPLES / "submit.yaml"
    where = {"RLM_OTEL": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint, "RLM_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "rlm.cli", "run", str(task), "--quiet"]
    done = subprocess.run(command, env={**os.environ, **where}, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert receiver.one("invoke_agent submit").attributes["rlm.ending"] == "submitted"
    assert {one["service.name"] for one in receiver.resources} == {"rlm"}


def test_without_the_package_the_command_to_install_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(rlm.telemetry.TelemetryMissing, match=r"pip install 'rlm-kernel\[otel\]'"):
        rlm.telemetry.spans()
