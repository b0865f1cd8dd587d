"""`rlm tokens` and `rlm serve` as people type them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import httpx
import pytest

from rlm.serve.tokens import Tokens
from tests.support.task_server import COUNT, write_task

_RLM = [sys.executable, "-c", "from rlm.cli import main; main()"]


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))


def test_a_token_is_made_listed_limited_renewed_and_removed(command):
    code, secret, about = command("tokens", "add", "laptop", "--runs", "2")
    assert (code, "shown once" in about) == (0, True)
    assert Tokens().check(secret.strip()) is not None
    code, listed, _ = command("tokens", "list")
    assert "laptop: 100 sessions, 2 runs at a time, 64,000,000 bytes of inputs, 600 s a run, 14400 s a day" in listed
    assert secret.strip() not in listed
    assert command("tokens", "limit", "laptop", "--sessions", "3")[0] == 0
    (token,) = json.loads(command("tokens", "list", "--json")[1])
    assert (token["limits"]["sessions"], token["limits"]["runs"]) == (3, 2)
    assert "hash" not in token
    renewed = command("tokens", "renew", "laptop")[1].strip()
    assert Tokens().check(secret.strip()) is None
    assert Tokens().check(renewed) is not None
    assert command("tokens", "remove", "laptop")[0] == 0
    assert Tokens().check(renewed) is None


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("tokens", "add", "a b"), "cannot be the name"),
        (("tokens", "add", "x", "--runs", "0"), "--runs"),
        (("tokens", "add", "x", "--day-seconds", "nan"), "--day-seconds"),
        (("tokens", "remove", "nobody"), "no token named 'nobody'"),
        (("tokens", "limit", "nobody"), "Say which limit"),
        (("serve",), "Say what is served"),
        (("serve", "nothing.yaml"), "nothing.yaml"),
        (("serve", "count.yaml", "count.yaml"), "Two tasks are named count"),
        (("serve", "count.yaml", "--idle", "soon"), "--idle"),
        (("serve", "count.yaml", "--port", "99999"), "--port"),
    ],
)
def test_what_is_wrong_is_said(command, tmp_path, arguments, problem):
    write_task(tmp_path, COUNT)
    code, _, error = command(*arguments)
    assert code == 2
    assert problem in error


def test_a_port_or_a_folder_in_use_is_said(command, tmp_path, monkeypatch):
    import socket

    from tests.support.task_server import serving

    path = write_task(tmp_path, COUNT)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, error = command("serve", str(path), "--port", str(taken.getsockname()[1]))
    assert code == 4
    assert "cannot listen on 127.0.0.1" in error
    with serving(path):
        code, _, error = command("serve", str(path), "--port", "0")
    assert code == 4
    assert "another `rlm serve` uses" in error


@pytest.mark.processes
def test_it_serves_until_it_is_interrupted(tmp_path):
    path = write_task(tmp_path, COUNT)
    _, secret = Tokens().add("ann")
    command = [*_RLM, "serve", f"mine={path}", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ.copy()
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            headers = {"authorization": f"Bearer {secret}"}
            with httpx.Client(base_url=address, headers=headers, timeout=60, trust_env=False) as client:
                assert [model["id"] for model in client.get("v1/models").json()["data"]] == ["mine"]
                body = {"model": "mine", "inputs": {"log": "abc"}}
                assert client.post("v1/sessions", json=body).status_code == 201
            process.send_signal(signal.SIGINT)
            assert process.wait(60) in (0, 130)
            assert process.stderr is not None
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()
