"""`--model ADDRESS`, and `examples/first_run.py` with such a server: real processes on the loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rlm.cli.exit_codes import EnvironmentProblem
from rlm.cli.servers import model_at
from tests.support.repository import ROOT

LABELS = json.loads((ROOT / "examples" / "passages.labels.json").read_text(encoding="utf-8"))["topics"]
PASSAGES = json.loads((ROOT / "examples" / "passages.json").read_text(encoding="utf-8"))


class Server(BaseHTTPRequestHandler):
    """Offers a model, which finds the topics of the passages, all but one."""

    def do_GET(self) -> None:
        self._send({"data": [{"id": "house-model"}]} if self.path == "/v1/models" else {"data": []})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert body["model"] == "house-model"
        prompt = body["messages"][-1]["content"]
        topics = {
            text: "war" if at == 0 else label for at, (text, label) in enumerate(zip(PASSAGES, LABELS, strict=True))
        }
        listed = [line[1:].split("] ", 1) for line in prompt.split("\n") if line.startswith("[")]
        answer: Any = {number: topics[text] for number, text in listed}
        if not listed:
            answer = {"answer": next(topic for text, topic in topics.items() if text in prompt)}
        message = {"role": "assistant", "content": json.dumps(answer)}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self._send(
            {"id": "1", "object": "chat.completion", "created": 1, "model": "x", "choices": [choice], "usage": usage}
        )

    def _send(self, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_server_is_asked_which_model_it_offers(address: str) -> None:
    assert model_at(f"{address}/v1/") == "openai/house-model"
    with pytest.raises(EnvironmentProblem, match=r"no list of models came back. Is the server running.*--api-base"):
        model_at(f"{address}/v2")


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(EnvironmentProblem, match=r"http://127.0.0.1:9/v1/models: .*refused"):
        model_at("http://127.0.0.1:9/v1")


@pytest.mark.processes
def test_the_last_task_of_make_run_counts_what_is_right(address: str, tmp_path: Any) -> None:
    environment = {**os.environ, "RLM_MODEL": f"{address}/v1", "RLM_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "examples" / "first_run.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "35 of 36 topics are as a person labelled them (by chance: 9)." in done.stdout
    assert "rlm view" in done.stdout
    assert "items 36 of 36" in done.stderr
    assert "weights are good for" not in done.stdout  # that is said of the embedded model


@pytest.mark.processes
def test_a_model_that_cannot_be_asked_is_left_out_and_make_ends_well(tmp_path: Any) -> None:
    environment = {
        **os.environ,
        "RLM_MODEL": "http://127.0.0.1:9/v1",
        "RLM_HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, str(ROOT / "examples" / "first_run.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0
    assert "This task was left out: the model cannot be asked" in done.stdout
    assert "http://127.0.0.1:9/v1/models" in done.stderr


def test_the_passages_have_a_label_each_and_every_topic_as_many() -> None:
    assert len(PASSAGES) == len(set(PASSAGES)) == len(LABELS) == 36
    assert {label: LABELS.count(label) for label in LABELS} == dict.fromkeys(["crime", "war", "schools", "health"], 9)
