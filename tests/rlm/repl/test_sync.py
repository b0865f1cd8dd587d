"""Runs that code waits for which is not asynchronous: the loop that is kept, and when it is not."""

from __future__ import annotations

import asyncio
import contextvars
import os
import socket
import subprocess
import sys
import threading
import time
import weakref

import pytest

from rlm.models.direct.transport import Endpoint
from rlm.run import run_sync


async def here():
    return asyncio.get_running_loop()


def test_the_main_thread_keeps_its_loop_from_one_run_to_the_next():
    first = run_sync(here)
    assert run_sync(here) is first
    assert not first.is_closed()


def test_each_run_sees_the_context_that_it_was_started_in():
    variable = contextvars.ContextVar("variable", default="")

    async def look():
        seen = variable.get()
        variable.set("inside")
        return seen

    variable.set("one")
    assert run_sync(look) == "one"
    variable.set("two")
    assert run_sync(look) == "two"
    assert variable.get() == "two"


def test_an_error_comes_through_and_the_loop_is_kept():
    before = run_sync(here)

    async def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_sync(fail)
    assert run_sync(here) is before


def test_what_a_run_left_behind_is_cancelled_and_its_loop_closed():
    ended = []

    async def linger():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    async def leave():
        leave.task = asyncio.ensure_future(linger())
        await asyncio.sleep(0)
        return asyncio.get_running_loop()

    loop = run_sync(leave)
    assert ended == [True]
    assert loop.is_closed()
    assert run_sync(here) is not loop


def test_a_run_that_was_interrupted_gives_up_its_loop():
    loop = run_sync(here)

    async def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sync(interrupted)
    assert loop.is_closed()
    assert run_sync(here) is not loop


def test_other_threads_close_theirs():
    loops = []
    thread = threading.Thread(target=lambda: loops.append(run_sync(here)))
    thread.start()
    thread.join()
    assert loops[0].is_closed()
    assert loops[0] is not run_sync(here)


async def test_where_a_loop_is_running_another_thread_runs_it():
    assert run_sync(here) is not asyncio.get_running_loop()


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_a_loop_of_its_own_and_leaves_the_parents_alone():
    loop = run_sync(here)
    child = os.fork()
    if not child:
        os._exit(0 if run_sync(here) is not loop and not loop.is_closed() else 1)
    assert os.waitpid(child, 0)[1] == 0

    async def woken_from_a_thread():
        done = asyncio.Event()
        threading.Timer(0.05, asyncio.get_running_loop().call_soon_threadsafe, [done.set]).start()
        await asyncio.wait_for(done.wait(), 5)
        return asyncio.get_running_loop()

    assert run_sync(woken_from_a_thread) is loop


def test_a_loop_that_somebody_closed_is_replaced():
    run_sync(here).close()
    assert not run_sync(here).is_closed()


class Held:
    pass


def test_nothing_of_a_runs_context_stays():
    run_sync(here).close()  # the next one is made in the context below
    variable = contextvars.ContextVar("variable")
    held = Held()
    gone = weakref.ref(held)

    def run(value):
        variable.set(value)
        run_sync(here)

    contextvars.copy_context().run(run, held)
    del held
    assert gone() is None


def test_a_process_whose_runs_used_threads_ends_without_a_word():
    code = "import asyncio\nfrom rlm.run import run_sync\nrun_sync(lambda: asyncio.to_thread(int))"
    ended = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_what_a_server_says_between_two_runs_is_not_the_answer_to_the_second():
    """Some servers give up an idle connection with a word, which nobody had asked for."""
    server = socket.create_server(("127.0.0.1", 0))
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    def serve():
        for farewell in (b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", b""):
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)
                time.sleep(0.05)
                connection.sendall(farewell)

    thread = threading.Thread(target=serve)
    thread.start()
    endpoint = Endpoint.at(f"http://127.0.0.1:{server.getsockname()[1]}/", [])

    async def post():
        return (await endpoint.post(b"{}")).status

    assert run_sync(post) == 200
    time.sleep(0.2)
    assert run_sync(post) == 200
    thread.join()
    server.close()
