"""The Ray executor, on a cluster that is started here: the same batches as on processes, and actors that are killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlm.batch.errors import ExecutorError, MachineUnfit
from rlm.batch.executors.base import WorkerConfig
from rlm.batch.executors.ray import RayExecutor, one_line
from rlm.batch.executors.ray_actors import ItemActor, RateLimitActor, RayStore
from rlm.batch.item import Item, Outcome
from rlm.batch.worker import messages
from rlm.models.rate_limit.bucket import Limit
from tests.support import batches

pytestmark = pytest.mark.ray

SLOW = """\
main:
  - |
    ```python
    import time
    if n in (3, 4): time.sleep(1.5)
    SUBMIT(twice=2 * n)
    ```
"""
STUCK = SLOW.replace("n in (3, 4)", "n == 1").replace("1.5", "50")
ASKING = """\
main:
  - |
    ```python
    SUBMIT(twice=int(llm_query("twice?")))
    ```
sub: {"*": "2"}
"""
MEETING = """\
main:
  - |
    ```python
    SUBMIT(twice=meet(n))
    ```
"""
MEET = """\
import time
from pathlib import Path
from tests.support import batches

def meet(n: int) -> int:
    "Wait until all four are here."
    here = Path(__file__).parent
    (here / f"here-{n}").touch()
    end = time.monotonic() + 60
    while len(list(here.glob("here-*"))) < 4:
        if time.monotonic() > end:
            raise RuntimeError("nobody came")
        time.sleep(0.02)
    return 2 * n
"""


@pytest.fixture(scope="module")
def ray() -> Any:
    return pytest.importorskip("ray", reason="Ray is not installed: pip install 'rlm-kernel[ray]'")


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayExecutor]:
    if not _has_ray():
        pytest.skip("Ray is not installed: pip install 'rlm-kernel[ray]'")
    home = tmp_path_factory.mktemp("ray-home")
    limits = {"rate_limit_folder": str(home / "pace"), "limits": {"scripted/sub": {"requests": 7.5}}}
    executor = RayExecutor(WorkerConfig(home=str(home), traffic=limits), workers=2, at_once=2)
    yield executor
    executor.close()


def _has_ray() -> bool:
    from importlib.util import find_spec

    return find_spec("ray") is not None


class Watched:
    """An executor that notes what it yields, and calls somebody each time an item is taken."""

    def __init__(self, executor: Any, taken: Any = lambda count: None) -> None:
        self._engine, self._taken = executor, taken
        self.outcomes: list[Outcome] = []
        self.count = 0

    def run(self, items: Iterable[Item]) -> Iterator[Outcome]:
        def watched() -> Iterator[Item]:
            for item in items:
                yield item
                self.count += 1
                self._taken(self.count)

        for outcome in self._engine.run(watched()):
            self.outcomes.append(outcome)
            yield outcome

    def close(self) -> None:
        """It is not ours."""


def test_a_batch_is_done_as_processes_do_it(executor: RayExecutor, tmp_path: Path) -> None:
    folder = batches.write_folder(tmp_path / "ray", 9)
    batches.drive(folder, executor)
    batches.check_complete(folder, 9)
    batches.check_lines(folder, 9)  # as of the local executor, in its own tests
    pids = {int(one["worker"].rpartition(":")[2]) for one in batches.lines(folder)}
    assert pids == set(executor.pids)
    assert os.getpid() not in pids


def test_what_an_actor_had_when_it_was_killed_is_done_by_another(executor: RayExecutor, tmp_path: Path) -> None:
    folder = batches.write_folder(tmp_path, 8, replies=SLOW)
    killed: list[int] = []

    def taken(count: int) -> None:
        if count == 4 and not killed:
            killed.extend(executor.pids[:1])
            os.kill(killed[0], signal.SIGKILL)

    watched = Watched(executor, taken)
    batches.drive(folder, watched)
    batches.check_complete(folder, 8)
    lost = [one for one in watched.outcomes if one.ending == "Lost"]
    assert lost
    assert all(f":{killed[0]} was lost" in (one.error or "") for one in lost)
    assert killed[0] not in executor.pids
    assert {one["ending"] for one in batches.lines(folder)} == {"Submitted"}


def test_a_batch_goes_on_where_it_was_cut_off(executor: RayExecutor, tmp_path: Path) -> None:
    folder = batches.write_folder(tmp_path, 6)
    first = Watched(executor)
    batches.drive(folder, first, limit=4)
    assert first.count == 4
    second = Watched(executor)
    batches.drive(folder, second)
    assert second.count == 2
    batches.check_complete(folder, 6)


def test_one_actor_runs_several_items_at_once(executor: RayExecutor, tmp_path: Path) -> None:
    task = batches.TASK + "tools: [meeting:meet]\n"
    folder = batches.write_folder(tmp_path, 4, task=task, replies=MEETING)
    (folder / "meeting.py").write_text(MEET)
    batches.drive(folder, executor)  # two actors, and all four items must be there before one can end
    batches.check_complete(folder, 4)


def test_items_of_calls_in_any_order_end_in_the_order_in_which_they_were_sent(
    executor: RayExecutor, ray: Any, tmp_path: Path
) -> None:
    batches.drive(batches.write_folder(tmp_path / "first", 1), executor)  # so that there is a cluster
    source = batches.source_of(batches.write_folder(tmp_path, 3))
    items = [replace(item, key=item.name).to_dict() for item in source.read()]
    actor_class = ray.remote(ItemActor).options(num_cpus=0, max_concurrency=4)
    actor = actor_class.remote(messages.encode(WorkerConfig(home=str(tmp_path)).to_dict()), 1, None)
    requests = [{"number": 1, "items": items[1:]}, {"number": 0, "items": items[:1]}]
    responses = ray.get([actor.exchange.remote(messages.encode(request)) for request in requests])
    outcomes = [outcome for response in responses for outcome in messages.unpack(response)["outcomes"]]
    number = 2
    while len(outcomes) < 3:
        response = ray.get(actor.exchange.remote(messages.encode({"number": number, "items": []})))
        outcomes += messages.unpack(response)["outcomes"]
        number += 1
    ray.kill(actor)
    assert [(outcome["key"], outcome["ending"]) for outcome in outcomes] == [
        (item["name"], "Submitted") for item in items
    ]


def test_an_item_that_outlives_its_lease_is_lost_and_its_actor_replaced(executor: RayExecutor, tmp_path: Path) -> None:
    batches.drive(batches.write_folder(tmp_path / "first", 4), executor)  # so that there are actors
    folder = batches.write_folder(tmp_path, 2, replies=STUCK)
    items = [item for item, _, _ in batches.source_of(folder).checked()]
    given = [Item.from_dict({**one.to_dict(), "key": f"k{n}", "lease": 3.0}) for n, one in enumerate(items)]
    before = set(executor.pids)
    found = {one.key: one for one in executor.run(given)}
    assert (found["k0"].ending, found["k1"].ending) == ("Lost", "Submitted")
    assert "did not end in 3 seconds" in (found["k0"].error or "")
    assert len(before - set(executor.pids)) == 1


def test_a_lease_does_not_end_while_an_item_waits_for_its_turn_to_ask(executor: RayExecutor, tmp_path: Path) -> None:
    folder = batches.write_folder(tmp_path, 2, replies=ASKING)
    items = [item for item, _, _ in batches.source_of(folder).checked()]
    # The second question is due after eight seconds, and the leases are for five.
    given = [Item.from_dict({**one.to_dict(), "key": f"k{n}", "lease": 5.0}) for n, one in enumerate(items)]
    assert [(one.ending, one.error) for one in executor.run(given)] == [("Submitted", None)] * 2


def test_a_machine_without_isolation_ends_the_batch(executor: RayExecutor, tmp_path: Path) -> None:
    missing = "seatbelt" if sys.platform == "linux" else "namespaces"
    folder = batches.write_folder(tmp_path, 3, task=batches.TASK + f"sandbox: {{isolation: {missing}}}\n")
    with pytest.raises(MachineUnfit, match=missing):
        batches.drive(folder, executor)
    assert batches.lines(folder) == []
    good = batches.write_folder(tmp_path / "good", 2)
    batches.drive(good, executor)
    batches.check_complete(good, 2)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("The actor died unexpectedly.\n\tclass_name: X\n\tpid: 1", "The actor died unexpectedly."),
        (
            "The actor died because of an error raised in its creation task, \x1b[36mray::X()\x1b[39m\n"
            "Traceback:\n  x\nModuleNotFoundError: No module named 'rlm'\n",
            "ModuleNotFoundError: No module named 'rlm'; rlm-kernel must be installed on all machines of the cluster",
        ),
        ("", "Exception"),
    ],
    ids=["died", "no rlm there", "nothing"],
)
def test_what_ray_says_is_said_in_a_line(said: str, words: str) -> None:
    assert one_line(Exception(said)) == words


def make_room(executor: RayExecutor, ray: Any) -> None:
    """Somebody else needs a processor of the cluster: one of the two actors, if both are there, gives up its own."""
    if len(executor.workers) > 1:
        ray.kill(executor.workers.pop().actor)


def test_actors_that_cannot_start_are_not_started_for_ever(
    executor: RayExecutor, ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlm.batch.executors.scheduler.MAX_FAILED_STARTS", 2)
    make_room(executor, ray)
    other = RayExecutor(WorkerConfig(traffic={"nonsense": 1}), workers=1)  # in the cluster that is there
    with pytest.raises(ExecutorError, match=r"do not start: .*nonsense"):
        batches.drive(batches.write_folder(tmp_path, 1), other)
    other.close()
    assert ray.is_initialized()


JOINED = """
import json, sys
from pathlib import Path
from rlm.batch.executors.base import WorkerConfig
from rlm.batch.executors.ray import RayExecutor
from tests.support import batches
address, folder = sys.argv[1:]
traffic = {"limits": {"scripted/main": {"requests": 6000}}}
executor = RayExecutor(WorkerConfig(home=folder + "/home", traffic=traffic), address=address, workers=1, at_once=3)
batches.drive(Path(folder), executor)
print(json.dumps(executor.pids))
executor.close()
"""


def test_a_cluster_that_is_there_is_joined_by_its_address_and_outlives_the_batch(
    executor: RayExecutor, ray: Any, tmp_path: Path
) -> None:
    folder = batches.write_folder(tmp_path, 4)
    (folder / "home").mkdir()
    make_room(executor, ray)
    address = ray.get_runtime_context().gcs_address
    command = [sys.executable, "-c", JOINED, address, str(folder)]
    joined = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert joined.returncode == 0, joined.stderr
    batches.check_complete(folder, 4)
    assert not set(json.loads(joined.stdout)) & set(executor.pids)
    again = batches.write_folder(tmp_path / "again", 2)
    batches.drive(again, executor)
    batches.check_complete(again, 2)


def test_actors_share_rate_limits_through_an_actor(executor: RayExecutor, ray: Any) -> None:
    async def story() -> None:
        actor = ray.remote(RateLimitActor).options(num_cpus=0).remote()
        one, other, limit = RayStore(actor), RayStore(actor), Limit(requests=30)
        assert (await one.apply("m", "reserve", limit, 1, 1)).due_in == 0
        slot = await other.apply("m", "reserve", limit, 1, 1)
        assert 1 < slot.due_in <= 2
        one.post("m", "cancel", slot)
        assert (await one.apply("m", "reserve", limit, 1, 1)).due_in <= 2
        ray.kill(actor)

        async def ask_until_it_fails() -> None:
            while True:  # Ray ends an actor some time after it was told to
                await one.apply("m", "reserve", limit, 1, 1)

        with pytest.raises(OSError, match="gone"):
            await ask_until_it_fails()

    asyncio.run(story())


def test_the_cluster_listens_on_the_loopback_alone_and_tells_nobody(executor: RayExecutor, ray: Any) -> None:
    (node,) = ray.nodes()
    assert node["NodeManagerAddress"] == "127.0.0.1"
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


def test_nobody_at_the_address_is_said_at_once() -> None:
    with pytest.raises(ExecutorError, match=r"no Ray cluster at 127\.0\.0\.1:1: .*refused"):
        RayExecutor(address="127.0.0.1:1")


def test_that_ray_is_missing_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ExecutorError, match=r"pip install 'rlm-kernel\[ray\]'"):
        RayExecutor()
