"""A batch on a Ray cluster whose machines fail: `python benchmarks/cluster.py [--items 60]`, some minutes, by hand.

The machines are network namespaces with addresses of their own, behind a bridge (as root; otherwise they are Ray nodes
on the loopback, and the network stays as it is). They share the file system. While the batch runs

1. a node comes late,
2. a node is killed with everything on it,
3. the driver is killed, and started again by the same command,
4. the network of a node is slow (tbf: no more than so many kbit a second), and then away for some seconds.

At the end each item must have one line with the right answer, and the run of each line must be on record, whole.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import processes

PORT = 6399
TASK = """\
signature: "n: int -> twice: int"
models: {scripted: replies.yaml}
budget: {max_iterations: 3, max_duration: 2m}
"""
REPLIES = """\
main:
  - |
    ```python
    import time
    time.sleep(1)
    found = int(llm_query("half?"))
    ```
  - |
    ```python
    SUBMIT(twice=found * n)
    ```
sub: {"*": "2"}
"""


class Network:
    """Namespaces behind a bridge, which has a namespace of its own."""

    def __init__(self, count: int) -> None:
        self.names = [f"rlm{os.getpid()}-{number}" for number in range(count + 1)]
        self._switch = self.names[0]
        for name in self.names:
            _run("ip", "netns", "add", name)
        _run("ip", "-n", self._switch, "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", self._switch, "link", "set", "bridge", "up")
        for number, name in enumerate(self.names[1:], 1):
            port = f"port{number}"
            _run("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", self._switch)
            _run("ip", "-n", self._switch, "link", "set", port, "master", "bridge", "up")
            _run("ip", "-n", name, "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
            _run("ip", "-n", name, "link", "set", "eth0", "up")
            _run("ip", "-n", name, "link", "set", "lo", "up")

    def address(self, number: int) -> str:
        return f"10.77.0.{number}"

    def inside(self, number: int) -> list[str]:
        return ["ip", "netns", "exec", self.names[number]]

    def slow(self, number: int, kilobits: int) -> str:
        shape = ("root", "tbf", "rate", f"{kilobits}kbit", "burst", "16kbit", "latency", "2s")
        _run("tc", "-n", self.names[number], "qdisc", "replace", "dev", "eth0", *shape)
        _run("tc", "-n", self._switch, "qdisc", "replace", "dev", f"port{number}", *shape)
        return f"{kilobits:,} kbit/s"

    def cut(self, number: int, seconds: float) -> str:
        _run("ip", "-n", self._switch, "link", "set", f"port{number}", "down")
        time.sleep(seconds)
        _run("ip", "-n", self._switch, "link", "set", f"port{number}", "up")
        return f"away for {seconds:.0f} s"

    def close(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


class Loopback:
    """Where there are no namespaces: every node has the address of this machine."""

    def address(self, number: int) -> str:
        return "127.0.0.1"

    def inside(self, number: int) -> list[str]:
        return []

    def slow(self, number: int, kilobits: int) -> str:
        return "not done: it takes network namespaces"

    def cut(self, number: int, seconds: float) -> str:
        return "not done: it takes network namespaces"

    def close(self) -> None:
        """Nothing to remove."""


class Cluster:
    """Ray nodes, one for each machine of the network, and the command of a batch on them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.network: Network | Loopback = Network(4) if os.geteuid() == 0 else Loopback()
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}
        self.drivers: list[subprocess.Popen[bytes]] = []
        self.env = os.environ | {
            "RLM_HOME": str(folder / "home"),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_raylet_start_wait_time_s": "150",
            "PYTHONPATH": str(Path(__file__).resolve().parent.parent),
        }
        (folder / "home").mkdir()

    def start(self, number: int) -> None:
        """Start the node of a machine; the first one is the head."""
        head = number == 1
        where = ["--head", f"--port={PORT}"] if head else [f"--address={self.network.address(1)}:{PORT}"]
        command = [
            *self.network.inside(number),
            *(str(Path(sys.executable).with_name("ray")), "start", "--block", *where),
            f"--node-ip-address={self.network.address(number)}",
            *("--num-cpus=1", "--object-store-memory=80000000", "--disable-usage-stats"),
            *(["--include-dashboard=false", f"--temp-dir={self.folder / 'ray'}"] if head else []),
        ]
        self.nodes[number] = self._start(command, f"node{number}.log")

    def started(self, number: int) -> bool:
        return b"Ray runtime started" in (self.folder / f"node{number}.log").read_bytes()

    def kill(self, number: int) -> int:
        """Kill all processes of a node at once, as when its machine loses power."""
        return _kill(self.nodes.pop(number))

    def drive(self) -> subprocess.Popen[bytes]:
        """Start the batch, on the machine of the head."""
        command = [
            *self.network.inside(1),
            *(sys.executable, "-m", "rlm.cli", "batch", "task.yaml", "--over", "rows.jsonl", "--quiet", "--json"),
            *("--output", "results.jsonl", "--engine", "ray", "--workers", "3", "--at-once", "2"),
            *("--ray-address", f"{self.network.address(1)}:{PORT}"),
        ]
        self.drivers.append(self._start(command, f"driver{len(self.drivers) + 1}.log"))
        return self.drivers[-1]

    def close(self) -> None:
        for process in (*self.drivers, *self.nodes.values()):
            _kill(process)
        self.network.close()

    def _start(self, command: Sequence[str], log: str) -> subprocess.Popen[bytes]:
        with (self.folder / log).open("wb") as output:
            return subprocess.Popen(command, cwd=self.folder, env=self.env, stdout=output, stderr=subprocess.STDOUT)


def story(cluster: Cluster, items: int, patience: float) -> None:
    """Run the batch, and have its machines fail meanwhile."""
    began = time.monotonic()
    driver = None

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s, {len(lines(cluster.folder)):3} lines: {text}", flush=True)

    def until(count: int) -> None:
        _await(lambda: len(lines(cluster.folder)) >= count or driver.poll() is not None, patience)
        if driver.poll() is not None and len(lines(cluster.folder)) < count:
            raise SystemExit(f"the driver ended with {driver.returncode}")

    cluster.start(1)
    _await(lambda: cluster.started(1), patience)
    cluster.start(2)
    _await(lambda: cluster.started(2), patience)
    say("two nodes are started; the batch begins, with three workers")
    driver = cluster.drive()
    until(items // 10)
    cluster.start(3)
    say("the third node comes late")
    until(items // 3)
    killed = cluster.kill(2)
    say(f"the second node is killed, {killed} processes")
    until(items // 2)
    say("the driver is killed")
    driver.kill()
    driver.wait()
    driver = cluster.drive()
    say("and started again")
    until(len(lines(cluster.folder)) + items // 20)
    say(f"the network of the third node is slow: {cluster.network.slow(3, 2000)}")
    until(len(lines(cluster.folder)) + items // 20)
    say(f"the network of the third node: {cluster.network.cut(3, 5)}")
    cluster.start(4)
    say("a fourth node comes")
    _await(lambda: driver.poll() is not None, patience)
    say(f"the batch has ended with {driver.returncode}")


def check(folder: Path, items: int) -> list[str]:
    """Return what was lost, is there twice or is not on record."""
    from rlm.traces import load

    found = lines(folder)
    names = Counter(line["item"] for line in found)
    problems = [f"row {n}: {names[f'row {n}']} lines" for n in range(1, items + 1) if names[f"row {n}"] != 1]
    problems += [f"{line['item']}: {line['ending']}" for line in found if line["ending"] != "Submitted"]
    problems += [
        f"{line['item']}: {line['outputs']}"
        for line in found
        if line["ending"] == "Submitted" and line["outputs"] != {"twice": 2 * int(line["item"].split()[1])}
    ]
    runs = load(folder / "home")
    on_record = {run.id: run for run in runs}
    for line in found:
        run = on_record.get(line["run_id"])
        if run is None:
            problems.append(f"{line['item']}: its run {line['run_id']} is not on record")
        elif run.ending != "submitted" or len(run.iterations) != 2 or run.llm_calls != 1:
            problems.append(f"{line['item']}: its run is on record as {run.ending}, {len(run.iterations)} iterations")
    endings = Counter(run.ending for run in runs)
    print(f"{len(found)} lines, {len(runs)} runs on record: {dict(endings)}")
    print("workers:", dict(Counter(line["worker"] for line in found)))
    return problems


def lines(folder: Path) -> list[dict[str, object]]:
    path = folder / "results.jsonl"
    whole = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
    return [json.loads(line) for line in whole.splitlines()]


def _await(ready: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise SystemExit(f"nothing happened for {seconds:.0f} s")
        time.sleep(0.1)


def _kill(process: subprocess.Popen[bytes]) -> int:
    pids = processes.with_descendants([process.pid])
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()
    return len(pids)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=60)
    parser.add_argument("--patience", type=float, default=180, help="seconds without progress before it is given up")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rlm-cluster-", dir="/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "task.yaml").write_text(TASK)
        (folder / "replies.yaml").write_text(REPLIES)
        (folder / "rows.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(1, options.items + 1)))
        cluster = Cluster(folder)
        try:
            story(cluster, options.items, options.patience)
            problems = check(folder, options.items)
        except BaseException:
            for log in sorted(folder.glob("*.log")):
                print(f"== {log.name}\n{log.read_text(errors='replace')[-2000:]}", file=sys.stderr)
            raise
        finally:
            cluster.close()
    print("\n".join(problems) or "nothing lost, nothing twice, every run on record")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
