"""The OpenAPI description: what it says is what the server does, for requests of all kinds. And curl without it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import hypothesis
import pytest
import schemathesis
from schemathesis import checks
from schemathesis.specs.openapi import checks as openapi_checks

from rlm.serve.openapi import OPERATIONS, description
from tests.support.task_server import COUNT, asked, opened, serving, write_task

CHECKS = (
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
    openapi_checks.unsupported_method,
)


def test_the_description_is_valid_and_whole():
    text = description("http://127.0.0.1:8420")
    schemathesis.openapi.from_dict(text).validate()
    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(text)))
    assert named <= set(text["components"]["schemas"])
    assert sum(len(methods) for methods in text["paths"].values()) == len(OPERATIONS)
    assert len({operation.handler for operation in OPERATIONS}) == len(OPERATIONS)


def test_requests_of_all_kinds_are_answered_as_it_says(tmp_path):
    path = write_task(tmp_path, *[COUNT] * 3, more="budget: {max_iterations: 1}\n")
    with serving(path) as place, place.client(runs=4, sessions=50) as client:
        session = opened(client)
        run = asked(client, session)["id"]
        schema = schemathesis.openapi.from_url(f"{place.address}/openapi.json")
        headers = dict(client.headers)
        for result in schema.get_all_operations():
            operation = result.ok()

            @hypothesis.settings(
                max_examples=3,
                deadline=None,
                database=None,
                derandomize=True,
                suppress_health_check=list(hypothesis.HealthCheck),
            )
            @hypothesis.given(case=operation.as_strategy())
            def check(case: schemathesis.Case) -> None:
                if case.path_parameters and case.path_parameters.get("id", "").isalnum():
                    case.path_parameters["id"] = run if "/runs/" in case.path else session
                case.call_and_validate(headers=headers, checks=CHECKS, timeout=60)

            check()
        assert client.get("/v1/me").status_code == 200


def test_without_a_token_every_operation_is_refused(task_server):
    with task_server.client() as client:
        for operation in OPERATIONS:
            path = operation.path.replace("{id}", "x").replace("{name}", "x")
            answer = client.request(operation.method, path, headers={"authorization": "Bearer rlm_no"})
            assert answer.status_code == 401, operation.path


def test_every_path_names_its_methods(task_server):
    with task_server.client() as client:
        for operation in OPERATIONS:
            path = operation.path.replace("{id}", "x").replace("{name}", "x")
            answer = client.request("PATCH", path)
            assert answer.status_code == 405
            assert operation.method in answer.headers["allow"]


def test_curl_asks_and_follows(tmp_path):
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    with serving(write_task(tmp_path, COUNT)) as place:
        with place.client():
            pass

        def call(path: str, body: object = None) -> str:
            more = [] if body is None else ["-H", "content-type: application/json", "-d", json.dumps(body)]
            command = [curl, "-sS", "-N", "--noproxy", "*", "-m", "60", "-H", "@-", *more, place.address + path]
            secret = f"authorization: Bearer {place.secrets['ann']}"
            return subprocess.run(command, input=secret, capture_output=True, text=True, check=True, timeout=90).stdout

        run = json.loads(call("/v1/runs", {"model": "count", "inputs": {"log": "abc", "question": "?"}}))
        events = call(f"/v1/runs/{run['id']}/events")
        assert events.startswith("id: 1\nevent: run_started\ndata: ")
        assert "event: result\n" in events
        assert json.loads(call(f"/v1/runs/{run['id']}"))["result"]["outputs"] == {"answer": 3}
