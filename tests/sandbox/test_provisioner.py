"""A citizen of Jupyter: other tools start this kernel, and a session runs on kernels that others start."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import start_new_kernel
from jupyter_client.provisioning import KernelProvisionerFactory
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

import sandbox

pytestmark = pytest.mark.xdist_group("jupyter")
KERNEL = "rlm-sandbox"


def notebook(*cells):
    book = nbformat.v4.new_notebook()
    book.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    return book


def test_the_provisioner_and_the_kernelspec_are_registered():
    assert KERNEL in KernelProvisionerFactory.instance().get_provisioner_entries()
    spec = KernelSpecManager().get_kernel_spec(KERNEL)
    assert spec.metadata["kernel_provisioner"]["provisioner_name"] == KERNEL
    packaged = json.loads((Path(sandbox.__file__).parent / "kernelspec" / "kernel.json").read_text())
    assert spec.display_name == packaged["display_name"]


def test_a_notebook_is_executed_in_the_sandboxed_kernel():
    book = notebook(
        "import os\nprint(os.getpid(), sorted(os.environ))",
        "import pandas as pd\npd.DataFrame({'x': [1, 2]})",
        "import sys\nprint('oops', file=sys.stderr)\ndisplay('shown')\n1 + 1",
        "open('/etc/passwd').read()",
    )
    book.cells[3].metadata["tags"] = ["raises-exception"]
    NotebookClient(book, kernel_name=KERNEL, timeout=60).execute()
    first, frame, mixed, refused = (cell.outputs for cell in book.cells)
    assert first[0].text.startswith("1 ['HOME', 'LANG'")  # process 1, an empty environment
    assert "<table" in frame[0].data["text/html"]
    assert [output.output_type for output in mixed] == ["stream", "display_data", "execute_result"]
    assert mixed[2].data["text/plain"] == "2"
    assert refused[0].ename in ("FileNotFoundError", "PermissionError")
    assert [cell.execution_count for cell in book.cells] == [1, 2, 3, 4]


def test_a_notebook_stops_at_the_cell_that_fails():
    book = notebook("x = 1", "1 / 0", "x = 2")
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        NotebookClient(book, kernel_name=KERNEL, timeout=60).execute()
    assert book.cells[1].outputs[0].output_type == "error"
    assert book.cells[2].execution_count is None


@pytest.fixture
def client():
    manager, client = start_new_kernel(kernel_name=KERNEL)
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_an_ordinary_client_can_interrupt_restart_and_shut_down(client):
    manager, client = client
    asked = client.execute("x = 5\nimport time\nprint('begun')\ntime.sleep(60)")
    while client.get_iopub_msg(timeout=30)["msg_type"] != "stream":
        pass
    manager.interrupt_kernel()
    reply = client.get_shell_msg(timeout=30)
    assert reply["parent_header"]["msg_id"] == asked
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    assert client.execute_interactive("assert x == 5", timeout=30)["content"]["status"] == "ok"
    manager.restart_kernel(now=True)
    client.wait_for_ready(timeout=60)
    assert (
        client.execute_interactive("x", timeout=30, output_hook=lambda message: None)["content"]["ename"] == "NameError"
    )
    manager.shutdown_kernel()
    assert not manager.is_alive()


def test_an_ordinary_client_gets_completions_help_and_history(client):
    _, client = client
    client.execute_interactive("number_of_pages = 3\ndef shout(text):\n    'Say it louder.'", timeout=30)
    ask = {"reply": True, "timeout": 30}
    assert client.complete("number_o", **ask)["content"]["matches"] == ["number_of_pages"]
    client.execute_interactive("pages = []", timeout=30)
    assert client.complete("pages.app", **ask)["content"]["matches"] == ["append"]
    found = client.inspect("shout", 3, **ask)["content"]
    assert found["found"]
    assert "Say it louder." in found["data"]["text/plain"]
    assert not client.inspect("nothing_here", 3, **ask)["content"]["found"]
    for code, status in (("x = 1", "complete"), ("for i in range(3):", "incomplete"), ("x = ) (", "invalid")):
        client.is_complete(code)
        assert client.get_shell_msg(timeout=30)["content"]["status"] == status
    assert client.history(**ask)["content"]["status"] == "ok"
    assert client.comm_info(**ask)["content"] == {"status": "ok", "comms": {}}
    assert client.kernel_info(**ask)["content"]["language_info"]["name"] == "python"


def test_cells_queued_behind_a_failing_one_are_aborted(client):
    _, client = client
    ids = [client.execute(code) for code in ("import time; time.sleep(1.5); 1/0", "y = 1", "z = 1")]
    statuses = {}
    while len(statuses) < 3:
        message = client.get_shell_msg(timeout=30)
        statuses[message["parent_header"]["msg_id"]] = message["content"]["status"]
    assert [statuses[one] for one in ids] == ["error", "aborted", "aborted"]


def test_the_heartbeat_beats(client):
    _, client = client
    for _ in range(500):
        if client.hb_channel.is_beating() and client.is_alive():
            return
        time.sleep(0.05)
    pytest.fail("no heartbeat")


def test_a_kernel_that_dies_is_noticed(client):
    manager, _ = client
    os.kill(manager.provisioner._process.pid, signal.SIGKILL)
    for _ in range(500):
        if not manager.is_alive():
            return
        time.sleep(0.02)
    pytest.fail("the manager believes that the kernel lives")


def test_the_policy_of_a_notebook_kernel_comes_from_its_kernelspec(client):
    _, client = client
    reply = client.execute_interactive("(lambda: 0).__globals__", timeout=30, output_hook=lambda message: None)
    assert reply["content"]["ename"] == "Refused"


def test_the_kernels_command_line_says_how_it_is_started():
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-m", "sandbox.kernel"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "provisioner" in done.stderr


# -- sessions on a kernel that shares no descriptor with us: plain ipykernel over TCP


@pytest.fixture
def remote(open_session):
    def open_one(**options):
        return open_session(kernel_name="python3", **options)

    return open_one


def test_a_session_on_a_plain_tcp_kernel_runs_cells(remote):
    session = remote(inputs={"n": 3, "doc": "ü" * 300_000, "raw": b"\x00\x01"})
    result = session.run("print('hello', len(doc), raw)\nn * 2")
    assert result.error is None
    assert (result.stdout, result.value_repr) == ("hello 300000 b'\\x00\\x01'\n", "6")
    failed = session.run("y = 1\n1 / 0")
    assert failed.error.name == "ZeroDivisionError"
    assert session.run("y").value_repr == "1"


def test_host_calls_travel_as_jupyter_messages(remote):
    def fail():
        raise ValueError("from the host")

    session = remote(functions={"double": lambda x: 2 * x, "fail": fail})
    assert session.run("double(21)").value_repr == "42"
    result = session.run(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(8) as executor:\n"
        "    answers = list(executor.map(double, range(50)))\n"
        "answers == [2 * i for i in range(50)]"
    )
    assert (result.value_repr, result.calls) == ("True", 50)
    caught = session.run("try:\n    fail()\nexcept ValueError as e:\n    print('caught', e)")
    assert caught.stdout == "caught from the host\n"


def test_variables_policy_and_stopping_work_on_a_plain_kernel_too(remote):
    def submit(value):
        raise sandbox.StopCell

    session = remote(functions={"SUBMIT": submit}, limits=sandbox.Limits(cell_seconds=1.0))
    assert session.run("(lambda: 0).__globals__").error.name == "Refused"
    assert session.run("SUBMIT = 1").error.name == "Refused"
    session.run("total = [1, 2]")
    assert session.variables()["total"].value == [1, 2]
    assert list(session.variables()) == ["total"]
    late = session.run("while True: pass")
    assert isinstance(late.limit, sandbox.CellTimeLimit)
    assert session.run("total").value_repr == "[1, 2]"
    stopped = session.run("SUBMIT(1)\nafter = 1")
    assert stopped.stopped
    assert "after" not in session.variables()


def test_a_plain_kernel_that_dies_is_a_result(remote):
    session = remote(policy="off")
    result = session.run("import os; os._exit(1)")
    assert isinstance(result.death, sandbox.KernelDied)
    assert not session.alive


def test_closing_ends_a_plain_kernel(remote):
    session = remote()
    pid = int(session.run("import os; os.getpid()").value_repr)
    threading.Timer(0.3, session.close).start()
    with pytest.raises(sandbox.SessionClosed):
        session.run("import time; time.sleep(60)")
    for _ in range(500):
        if not os.path.exists(f"/proc/{pid}"):
            return
        time.sleep(0.02)
    pytest.fail("the kernel still runs")


def test_an_unknown_kernel_name_is_an_error_that_names_it():
    with pytest.raises(sandbox.KernelStartError, match="no-such-kernel"):
        sandbox.Session(kernel_name="no-such-kernel")
