"""A process that has used a model ends as any other: with its own exit code and without a word."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A thread that the system takes 0.2 s to end after Python has joined it, as MLX's may. What is registered first is
# called last, just before the interpreter ends.
SLOW_TO_END = """
import atexit, ctypes, os, threading
thread = []
atexit.register(lambda: print("there" if os.path.exists(f"/proc/self/task/{thread[0]}") else "gone"))
from rlm.models.local.worker import Worker
libc, key = ctypes.CDLL(None), ctypes.c_uint()
libc.pthread_key_create(ctypes.byref(key), libc.usleep)
def begin():
    thread.append(threading.get_native_id())
    libc.pthread_setspecific(key, ctypes.c_void_p(200_000))
worker = Worker("m")
worker.run(begin)
"""

COMPUTED = """
import mlx.core as mx
from rlm.models.local.worker import Worker
def compute():
    product = mx.random.normal((8, 8)) @ mx.random.normal((8, 8))
    mx.eval(product)
    return product.shape
print(Worker("m").run(compute))
"""


def ended(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=90)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system is asked through /proc")
@pytest.mark.parametrize("ending", ["", "worker.close()"])
def test_the_interpreter_ends_after_the_threads_of_its_models(ending: str) -> None:
    done = ended(SLOW_TO_END + ending)
    assert done.stdout == "gone\n", done.stderr


def test_a_process_that_used_mlx_ends_quietly() -> None:
    pytest.importorskip("mlx.core")
    done = ended(COMPUTED)
    assert (done.returncode, done.stdout, done.stderr) == (0, "(8, 8)\n", "")
