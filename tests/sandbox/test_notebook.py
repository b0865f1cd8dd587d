"""The notebook kernel by what the Jupyter messaging protocol promises and what people type, seen from a client."""

from __future__ import annotations

import importlib.util
import json
import re

import pytest
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import KernelManager, start_new_kernel

import sandbox

pytestmark = pytest.mark.xdist_group("jupyter")
KERNEL = "rlm-sandbox"
SECONDS = 60


class Notebook:
    """A client that keeps what a cell publishes."""

    def __init__(self, client):
        self.client = client

    def run(self, code, **options):
        """The content of the reply, and what was published: type and content."""
        published = []
        options = {"allow_stdin": False, **options}
        reply = self.client.execute_interactive(
            code, timeout=SECONDS, output_hook=lambda message: published.append(message), **options
        )
        ignored = ("status", "execute_input")
        return reply["content"], [(m["msg_type"], m["content"]) for m in published if m["msg_type"] not in ignored]

    def value(self, code):
        """The text of the value of a cell."""
        _, published = self.run(code)
        return next(content["data"]["text/plain"] for kind, content in published if kind == "execute_result")

    def printed(self, code):
        """What a cell printed."""
        return "".join(content["text"] for kind, content in self.run(code)[1] if kind == "stream")


@pytest.fixture(scope="module")
def shared():
    manager, client = start_new_kernel(kernel_name=KERNEL)
    yield Notebook(client)
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.fixture
def notebook(shared):
    shared.run("%reset -f in out")
    shared.run("%reset -f")
    return shared


@pytest.fixture
def configured(tmp_path, monkeypatch):
    """Start a kernel with this configuration of the provisioner."""
    started = []

    def start(cwd=None, **config):
        packaged = KernelSpecManager().get_kernel_spec(KERNEL).to_dict()
        packaged["metadata"]["kernel_provisioner"]["config"] = config
        manager = KernelManager(kernel_name=KERNEL)
        manager._kernel_spec = KernelSpec(**packaged)
        manager.start_kernel(**({"cwd": str(cwd)} if cwd else {}))
        client = manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=SECONDS)
        started.append((manager, client))
        return Notebook(client)

    yield start
    for manager, client in started:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


# -- values and displays

_SHOWN = {
    "html": ("_repr_html_", "'<b>x</b>'", "text/html", "<b>x</b>"),
    "markdown": ("_repr_markdown_", "'*x*'", "text/markdown", "*x*"),
    "latex": ("_repr_latex_", "'$x$'", "text/latex", "$x$"),
    "svg": ("_repr_svg_", "'<svg/>'", "image/svg+xml", "<svg/>"),
    "png": ("_repr_png_", "b'\\x89PNG'", "image/png", "iVBORw==\n"),
    "jpeg": ("_repr_jpeg_", "b'\\xff\\xd8'", "image/jpeg", "/9g=\n"),
    "json": ("_repr_json_", "{'a': [1, None]}", "application/json", {"a": [1, None]}),
    "mimebundle": ("_repr_mimebundle_", "{'text/x-own': 'own'}", "text/x-own", "own"),
    "mimebundle-with-metadata": ("_repr_mimebundle_", "({'text/x-own': 'own'}, {'m': 1})", "text/x-own", "own"),
}


@pytest.mark.parametrize("kind", _SHOWN)
@pytest.mark.parametrize("how", ["value", "display"])
def test_rich_representations(notebook, kind, how):
    method, returned, mime, expected = _SHOWN[kind]
    define = f"class Own:\n    def {method}(self, **more): return {returned}\n    def __repr__(self): return 'plain'\n"
    _, published = notebook.run(define + ("Own()" if how == "value" else "display(Own())"))
    ((shown, content),) = published
    assert shown == ("execute_result" if how == "value" else "display_data")
    found = content["data"][mime]
    assert (found.strip() if isinstance(found, str) else found) == (
        expected.strip() if isinstance(expected, str) else expected
    )
    assert content["data"]["text/plain"] == "plain"


def test_an_object_may_display_itself(notebook):
    _, published = notebook.run("class Own:\n    def _ipython_display_(self): display('mine')\nOwn()")
    assert [(kind, content["data"]) for kind, content in published] == [("display_data", {"text/plain": "'mine'"})]


def test_displays_are_updated_and_cleared(notebook):
    _, published = notebook.run(
        "from IPython.display import clear_output, display, update_display\n"
        "handle = display('a', display_id='one')\nhandle.update('b')\nupdate_display('c', display_id='one')\n"
        "clear_output(wait=True)\ndisplay('d', display_id=True).display_id"
    )
    shown = [(kind, content.get("data"), content.get("transient")) for kind, content in published]
    one = {"display_id": "one"}
    assert shown[:3] == [
        ("display_data", {"text/plain": "'a'"}, one),
        ("update_display_data", {"text/plain": "'b'"}, one),
        ("update_display_data", {"text/plain": "'c'"}, one),
    ]
    assert published[3] == ("clear_output", {"wait": True})
    assert published[4][1]["transient"]["display_id"] in published[5][1]["data"]["text/plain"]


def test_values_have_names(notebook):
    notebook.run("6 * 7")
    assert notebook.value("_ + 1") == "43"
    notebook.run("'quiet';")
    assert notebook.run("1 + 1;")[1] == []
    assert notebook.run("None")[1] == []
    count = notebook.run("'counted'")[0]["execution_count"]
    assert notebook.value(f"Out[{count}], In[{count}], _{count}") == "('counted', \"'counted'\", 'counted')"


_FIGURE = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\n"


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed")
@pytest.mark.parametrize("show", ["plt.title('x');", "plt.show()\nprint('after')"])
def test_figures_appear_in_the_cell(notebook, show):
    _, published = notebook.run(_FIGURE + show)
    kind, content = published[0]
    assert kind == "display_data"
    assert content["data"]["image/png"].startswith("iVBOR")
    _, published = notebook.run("%config InlineBackend.figure_formats = ['svg']\n" + _FIGURE + show)
    assert "<svg" in published[0][1]["data"]["image/svg+xml"]
    notebook.run("%config InlineBackend.figure_formats = ['png']")


# -- requests


def test_user_expressions(notebook):
    reply, _ = notebook.run("x = 5", user_expressions={"good": "x + 1", "bad": "nothing_here"})
    good, bad = reply["user_expressions"]["good"], reply["user_expressions"]["bad"]
    assert (good["status"], good["data"]["text/plain"]) == ("ok", "6")
    assert (bad["status"], bad["ename"]) == ("error", "NameError")


def test_cells_that_leave_no_history_and_silent_ones(notebook):
    count = notebook.run("1")[0]["execution_count"]
    assert notebook.run("2", store_history=False)[0]["execution_count"] == count + 1
    assert notebook.run("3", silent=True)[1] == []
    assert notebook.run("4")[0]["execution_count"] == count + 1


def test_history(notebook):
    for code in ("first = 1", "second = 2", "first + second"):
        notebook.run(code)

    def past(**wanted):
        return notebook.client.history(reply=True, timeout=SECONDS, **wanted)["content"]["history"]

    assert [entry[2] for entry in past(hist_access_type="tail", n=2)][-1] == "first + second"
    assert past(hist_access_type="search", pattern="sec*", n=5)[-1][2] == "second = 2"
    (entry,) = past(hist_access_type="range", session=0, start=1, stop=2, output=True)
    assert isinstance(entry[2], list)


def test_help(notebook):
    def inspected(code, **options):
        return notebook.client.inspect(code, len(code), reply=True, timeout=SECONDS, **options)["content"]

    found = inspected("len")
    assert found["found"]
    assert "number of items" in found["data"]["text/plain"]
    notebook.run("import json")
    source = inspected("json.dumps", detail_level=1)["data"]["text/plain"]
    assert "def dumps" in re.sub(r"\x1b\[[0-9;]*m", "", source)
    assert not inspected("nothing_here")["found"]
    assert "Return the number of items" in notebook.printed("help(len)")
    (page,) = notebook.run("len?")[0]["payload"]
    assert page["source"] == "page"
    assert "number of items" in page["data"]["text/plain"]


def test_completions_know_attributes_keys_and_magics(notebook):
    notebook.run("prices = {'apple': 1}")

    def completed(code):
        return notebook.client.complete(code, len(code), reply=True, timeout=SECONDS)["content"]["matches"]

    assert any("apple" in match for match in completed("prices['"))
    assert "%timeit" in completed("%timei")
    assert "keys" in [match.rpartition(".")[2] for match in completed("prices.ke")]


# -- questions


def _answering(notebook, code, *answers):
    answers, asked = list(answers), []

    def answer(message):
        asked.append(message["content"])
        notebook.client.input(answers.pop(0))

    published = []
    reply = notebook.client.execute_interactive(
        code, timeout=SECONDS, allow_stdin=True, stdin_hook=answer, output_hook=published.append
    )
    return reply["content"], asked, published


def test_questions_are_asked_of_the_person(notebook):
    code = "import getpass\nname = input('Name? ')\nsecret = getpass.getpass('Word: ')"
    reply, asked, _ = _answering(notebook, code, "Ada", "psst")
    assert reply["status"] == "ok"
    assert asked == [{"prompt": "Name? ", "password": False}, {"prompt": "Word: ", "password": True}]
    assert notebook.value("name, secret") == "('Ada', 'psst')"


def test_answers_and_questions_are_limited(notebook):
    reply, asked, _ = _answering(notebook, "len(input('x' * 100_000))", "y" * (2 << 20))
    assert reply["status"] == "ok"
    assert len(asked[0]["prompt"]) == 10_000
    assert notebook.value("_") == str(1 << 20)


def test_a_client_without_questions(notebook):
    reply, _ = notebook.run("input('Name? ')", allow_stdin=False)
    assert reply["ename"] == "StdinNotImplementedError"


# -- magics and what cannot work


def test_magics_that_people_type(notebook):
    notebook.run("x = 5")
    assert "Wall time" in notebook.printed("%time sum(range(10))")
    assert "per loop" in notebook.printed("%timeit -n1 -r1 x + 1")
    assert notebook.printed("%who").split() == ["x"]
    assert "Wall time" in notebook.printed("%%time\ny = 6")
    assert notebook.value("y") == "6"


_REFUSED = {
    "!ls -l": "no other programs",
    "files = !ls": "no other programs",
    "%%bash\nls": "no other programs",
    "%ls": "no other programs",
    "%pip install pandas": "cannot install packages",
    "!pip install pandas": "no other programs",
    "%conda install pandas": "cannot install packages",
}


@pytest.mark.parametrize("code", _REFUSED)
def test_what_cannot_work_says_why(notebook, code):
    reply, published = notebook.run(code)
    assert (reply["status"], reply["ename"]) == ("error", "UsageError")
    assert _REFUSED[code] in reply["evalue"]
    assert [kind for kind, _ in published] == ["error"]


@pytest.mark.parametrize("code", ["{}", "%time {}", "%timeit -n1 -r1 {}", "%%time\nx = {}"])
def test_the_policy_reads_what_magics_run(notebook, code):
    reply, _ = notebook.run(code.format("(lambda: 0).__globals__"))
    assert reply["ename"] == "Refused"
    assert "__globals__" in reply["evalue"]


def test_a_policy_that_only_warns(configured):
    printed = configured(policy="warn").printed("type((lambda: 0).__globals__)")
    assert "`.__globals__` reaches into Python's internals" in printed


# -- widgets


def test_comms(notebook):
    notebook.run(
        "import comm\nfrom comm.base_comm import BaseComm\nreceived = []\n"
        "def opened(one, message):\n"
        "    one.on_msg(lambda message: (received.append(message['content']['data']), one.send({'back': 1})))\n"
        "comm.get_comm_manager().register_target('test', opened)"
    )
    client = notebook.client
    content = {"comm_id": "c1", "target_name": "test", "data": {}}
    client.shell_channel.send(client.session.msg("comm_open", content))
    message = client.session.msg("comm_msg", {"comm_id": "c1", "data": {"value": 7}})
    client.shell_channel.send(message)
    while True:
        published = client.get_iopub_msg(timeout=SECONDS)
        if published["msg_type"] == "comm_msg":
            break
    assert published["content"] == {"comm_id": "c1", "data": {"back": 1}}
    assert published["parent_header"]["msg_id"] == message["header"]["msg_id"]
    assert notebook.value("received") == "[{'value': 7}]"
    listed = client.comm_info("test", reply=True, timeout=SECONDS)["content"]["comms"]
    assert listed == {"c1": {"target_name": "test"}}
    assert client.comm_info("other", reply=True, timeout=SECONDS)["content"]["comms"] == {}
    _, published = notebook.run(
        "one = comm.create_comm(target_name='ours', data={'x': b'raw'}, buffers=[b'12'])\none.close()"
    )
    assert [kind for kind, _ in published] == ["comm_open", "comm_close"]


# -- limits


def _size(published):
    return sum(len(json.dumps(content)) for kind, content in published if kind != "status")


@pytest.mark.parametrize(
    "code",
    [
        "class Large:\n    def _repr_png_(self): return b'x' * 500_000\nfor _ in range(20): display(Large())",
        "class Large:\n    def __repr__(self): return 'x' * 500_000\nfor _ in range(20): display(Large())",
        "for _ in range(20): print('x' * 500_000)",
        "import comm\nfor _ in range(20): comm.create_comm(target_name='t', data={'x': 'x' * 500_000})",
        "import comm\nfor _ in range(20): comm.create_comm(target_name='t', data={}, buffers=[b'x' * 500_000])",
        "for _ in range(20_000): display(1)",
    ],
)
def test_everything_that_a_cell_shows_counts(configured, code):
    notebook = configured(limits={"output_bytes": 100_000})
    reply, published = notebook.run(code)
    assert reply["status"] == "ok"
    kind, content = published[-1]
    assert (kind, content["name"]) == ("stream", "stderr")
    assert "left out: a cell may show 100,000 bytes" in content["text"]
    assert sum(len(str(one.get("data", one.get("text")))) for _, one in published) < 600_000
    assert notebook.value("6 * 7") == "42"


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("display(1, metadata={'x': 'y' * 10_000_000})", {}),
        ("display(1, display_id='y' * 10_000_000)", {}),
        ("0", {"user_expressions": {"x": "'y' * 10_000_000"}}),
        ("get_ipython().set_next_input('y' * 10_000_000)", {}),
    ],
)
def test_what_comes_beside_the_output_is_limited_too(configured, code, options):
    reply, published = configured(limits={"output_bytes": 100_000}).run(code, **options)
    assert len(json.dumps(reply)) + _size(published) < 300_000


def test_errors_are_cut(notebook):
    reply, published = notebook.run("raise ValueError('x' * 10_000_000)")
    assert reply["ename"] == "ValueError"
    assert len(json.dumps(reply)) + _size(published) < 300_000


# -- files


def test_files_beside_the_notebook_can_be_read_if_configured(configured, tmp_path):
    data, other = tmp_path / "project", tmp_path / "other"
    for place in (data, other):
        place.mkdir()
        (place / "table.csv").write_text("a\n1\n")
    for place in (tmp_path, *tmp_path.parents):
        if place.owner() == data.owner() and "pytest" in str(place):
            place.chmod(0o755)
    notebook = configured(cwd=data, files=["."])
    assert notebook.value("open('table.csv').read()") == "'a\\n1\\n'"
    assert notebook.value(f"open({str(data / 'table.csv')!r}).read()") == "'a\\n1\\n'"
    reply, _ = notebook.run("open('table.csv', 'w')")
    assert reply["ename"] in ("OSError", "PermissionError")
    assert (data / "table.csv").read_text() == "a\n1\n"
    reply, _ = notebook.run(f"open({str(other / 'table.csv')!r})")
    assert reply["ename"] in ("FileNotFoundError", "PermissionError")
    notebook.run("open('new.txt', 'w').write('x')")
    assert not (data / "new.txt").exists()


def test_without_that_there_are_none(configured, tmp_path):
    (tmp_path / "table.csv").write_text("a")
    notebook = configured(cwd=tmp_path)
    reply, _ = notebook.run(f"open({str(tmp_path / 'table.csv')!r})")
    assert reply["ename"] in ("FileNotFoundError", "PermissionError")


def test_files_that_do_not_exist_are_an_error(configured, tmp_path):
    with pytest.raises(sandbox.KernelStartError, match="missing does not exist"):
        configured(cwd=tmp_path, files=["missing"])


# -- what a session does not pay for


def test_a_session_has_none_of_this(open_session):
    session = open_session(policy="off")
    names = ("IPython", "traitlets", "sandbox.kernel.notebook", "sandbox.kernel.shell", "zmq")
    assert session.run(f"import sys\n[name for name in {names} if name in sys.modules]").value == ["zmq"]


def test_without_ipython_the_error_says_what_to_install(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "IPython" else real(name))
    manager = KernelManager(kernel_name=KERNEL)
    with pytest.raises(sandbox.KernelStartError, match=r"pip install 'rlm-kernel\[notebooks\]'"):
        manager.start_kernel()
