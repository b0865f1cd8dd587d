"""What the policy knows by name: which names it refuses, why, and what to write instead. The rules are in `policy.py`.

Every refusal is a `Why`: the reason completes a sentence that begins with the code in question ("`eval` ..."), and the
hint is a whole sentence that tells the author of the code what to do.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from RestrictedPython.transformer import INSPECT_ATTRIBUTES


class Why(NamedTuple):
    """Why something is refused, and what to do instead."""

    reason: str
    hint: str


def _each(names: str, reason: str, hint: str) -> dict[str, Why]:
    return dict.fromkeys(names.split(), Why(reason, hint))


def _dunders(words: str) -> frozenset[str]:
    return frozenset(f"__{word}__" for word in words.split())


# ── special names ────────────────────────────────────────────────────────────────────────────────────────────────────

_ARITHMETIC: Final = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or"
_METHODS: Final = """
    init new del post_init call repr str bytes format hash bool lt le eq ne gt ge
    len length_hint getitem setitem delitem missing iter next reversed contains
    neg pos abs invert int float complex index round trunc floor ceil
    enter exit aenter aexit await aiter anext
    getattr setattr delattr dir get set delete set_name
    init_subclass class_getitem instancecheck subclasscheck subclasshook prepare
    copy deepcopy replace sizeof fspath getstate setstate getnewargs array array_ufunc dataframe
"""
_FACTS: Final = """
    name qualname doc module file all debug annotations dict slots match_args weakref class mro base bases
    version author license copyright credits email date status about
    members dataclass_fields dataclass_params origin args parameters metadata type_params value bound constraints
    required_keys optional_keys total abstractmethods wrapped
    cause context suppress_context traceback notes
    array_priority
"""

ORDINARY: Final = (
    _dunders(_METHODS)
    | _dunders(_FACTS)
    | {
        f"__{kind}{word}__"
        for word in _ARITHMETIC.split()
        for kind in ("", "r", "i")
        if (kind, word) != ("i", "divmod")
    }
)
"""Special names that may be read, called, defined and assigned. Every other `__name__` is refused."""

READ_ONLY: Final = _dunders("dict weakref debug abstractmethods dataclass_fields dataclass_params class mro base bases")
"""Of these, the ones that may only be read."""

OTHER_SPECIAL: Final = Why(
    "is one of Python's internal names",
    "Use an ordinary method, function or operator, or a name without the double underscores",
)

_INTERNALS: Final = "reaches into Python's internals"
_CLASS_TREE: Final = "Name the classes you mean; isinstance() and issubclass() test for them"
_FUNCTION_PARTS: Final = "Call the function, or pass what it needs as arguments"
_IMPORT_PARTS: Final = "Write an import statement"

ATTRIBUTES: Final[dict[str, Why]] = {
    **_each(
        " ".join(INSPECT_ATTRIBUTES),
        "inspects running code",
        "Work with the variables themselves; for an error, print(repr(error)) or traceback.format_exc()",
    ),
    **_each(
        "_getframe _current_frames _current_exceptions",
        "inspects running code",
        "Work with the variables themselves: pass them as arguments and return them",
    ),
    "__subclasses__": Why(_INTERNALS, _CLASS_TREE),
    **_each("__globals__ __builtins__", _INTERNALS, "Use the name of the variable or function directly"),
    **_each("__code__ __closure__ __func__ __self__ __defaults__ __kwdefaults__", _INTERNALS, _FUNCTION_PARTS),
    **_each("__import__ __loader__ __spec__ __path__ __package__ __cached__", _INTERNALS, _IMPORT_PARTS),
    "__getattribute__": Why(_INTERNALS, "Use getattr(obj, name); to answer for missing attributes, define __getattr__"),
    **_each(
        "__reduce__ __reduce_ex__",
        "decides what runs when an object is unpickled",
        "Write a method that returns a dict",
    ),
    **_each(
        "__array_interface__ __array_struct__ __cuda_array_interface__ __buffer__ __release_buffer__",
        "hands out raw memory",
        "Use numpy.asarray(obj), or define __array__",
    ),
    "ProcessPoolExecutor": Why(
        "starts processes, and the sandbox has only one", "Use ThreadPoolExecutor or a plain loop"
    ),
}
"""Attributes refused on any object. Special names that stand neither here nor in `ORDINARY` get `OTHER_SPECIAL`."""

READ_ONLY_HINT: Final = "Set the attributes of the object one by one, or make another object"

LOOKUPS: Final[dict[str, slice]] = {
    **dict.fromkeys(("getattr", "hasattr", "setattr", "delattr", "getattr_static"), slice(1, 2)),
    **dict.fromkeys(("__getattr__", "__setattr__", "__delattr__"), slice(0, 2)),
    "attrgetter": slice(None),
    "methodcaller": slice(0, 1),
}
"""Functions that take the name of an attribute, and which of their arguments it is."""

STORING_LOOKUPS: Final = frozenset(("setattr", "delattr", "__setattr__", "__delattr__"))

# ── builtins ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_WRITE_IT: Final = "Write the code directly in the cell; for data in a string use json.loads() or ast.literal_eval()"

BUILTINS: Final[dict[str, Why]] = {
    **_each("exec eval compile", "runs code from a string, which cannot be reviewed", _WRITE_IT),
    "__import__": Why("imports behind the import statement", _IMPORT_PARTS),
    "__build_class__": Why(_INTERNALS, "Write a class statement"),
    "breakpoint": Why("opens a debugger, and nobody is there to use it", "Print the values you want to see"),
    "input": Why("asks a person, and there is nobody to answer", "Use the variables you were given"),
}
"""Builtins that are refused as soon as they are named, unless the code has a variable of that name."""

# ── modules ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_GIVEN: Final = "Use the data and the functions you were given"
_DIRECTLY: Final = "Write what you need directly, with ordinary imports"

MODULES: Final[dict[str, Why]] = {
    **_each(
        """socket _socket socketserver ssl _ssl requests httpx httpcore urllib3 urllib.request http.client http.server
        aiohttp ftplib smtplib poplib imaplib nntplib telnetlib xmlrpc websocket websockets paramiko webbrowser zmq
        pandas_datareader wikipedia yfinance""",
        "needs the network, and the sandbox has no network",
        _GIVEN,
    ),
    **_each(
        "openai anthropic litellm cohere mistralai google.generativeai ollama",
        "calls a model over the network, and the sandbox has no network",
        "Use the functions you were given; they are already defined",
    ),
    **_each(
        "pip ensurepip venv",
        "installs packages, and the sandbox has no network",
        "Use the standard library and the packages that are already there",
    ),
    **_each(
        "subprocess _posixsubprocess pty",
        "starts other programs, and the sandbox has none",
        "Do the work in Python itself",
    ),
    **_each(
        "multiprocessing _multiprocessing concurrent.futures.process",
        "starts processes, and the sandbox has only one",
        "Use concurrent.futures.ThreadPoolExecutor or a plain loop",
    ),
    **_each(
        "ctypes _ctypes _ctypes_test cffi _cffi_backend",
        "runs native code, which is not allowed here",
        "Use Python, or numpy where speed matters",
    ),
    **_each(
        """importlib.machinery importlib.abc importlib._bootstrap importlib._bootstrap_external
        imp _imp _frozen_importlib _frozen_importlib_external zipimport runpy pkgutil builtins __main__
        marshal code codeop sandbox _testcapi _testinternalcapi _xxsubinterpreters _interpreters""",
        "changes how Python itself runs",
        _DIRECTLY,
    ),
    **_each("posix _posix", "is the inside of os", "Write `import os`"),
    **_each(
        "signal _signal faulthandler resource", "belongs to the sandbox, which keeps time and memory", "Leave it out"
    ),
    **_each("pdb bdb", "is a debugger, and nobody is there to use it", "Print the values you want to see"),
    **_each(
        "IPython ipykernel jupyter_client jupyter_core ipywidgets",
        "belongs to notebooks, and this is plain Python",
        "Print the values you want to see",
    ),
    **_each("getpass readline rlcompleter", "asks a person, and there is nobody to answer", _GIVEN),
    **_each("tkinter turtle curses pygame", "needs a screen, and there is none", "Print the values you want to see"),
}
"""Modules that cannot work in the sandbox or exist to get around it, with everything below them."""

NOTEBOOK: Final = frozenset(
    ["input", "IPython", "ipykernel", "jupyter_client", "jupyter_core", "ipywidgets", "getpass"]
)
"""Builtins and modules that may be used in a notebook."""

_NO_PROGRAMS: Final = "starts other programs or processes, and the sandbox has none"
_IN_PYTHON: Final = "Do the work in Python itself; pathlib, shutil and glob handle files"

MEMBERS: Final[dict[str, dict[str, Why]]] = {
    "os": {
        **_each(
            """system popen fork forkpty posix_spawn posix_spawnp
            execl execle execlp execlpe execv execve execvp execvpe
            spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe""",
            _NO_PROGRAMS,
            _IN_PYTHON,
        ),
        **_each(
            "_exit abort kill killpg",
            "would end the session",
            "Leave the cell by reaching its end or by raising an error",
        ),
    },
    "asyncio": _each("create_subprocess_exec create_subprocess_shell", _NO_PROGRAMS, _IN_PYTHON)
    | _each("open_connection start_server", "needs the network, and the sandbox has no network", _GIVEN),
    "sys": {
        "modules": Why("is the table of all modules", "Write an import statement, in a try block if it may fail"),
        **_each(
            "settrace setprofile addaudithook", "changes how Python itself runs", "Print the values you want to see"
        ),
    },
    "inspect": _each(
        "currentframe stack trace getouterframes getinnerframes getframeinfo getclosurevars",
        "inspects running code",
        "Work with the variables themselves: pass them as arguments and return them",
    ),
    "gc": _each(
        "get_objects get_referrers get_referents",
        _INTERNALS,
        "Work with the variables themselves; gc.collect() is fine",
    ),
    "types": {"CodeType": Why("makes code that cannot be reviewed", "Write a function")},
}
"""Members of modules that are otherwise fine."""
