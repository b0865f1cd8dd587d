"""Names whose meaning the analysis knows: builtins, methods and modules, and what cannot be followed."""

from __future__ import annotations

import importlib.util
import sys
from functools import lru_cache


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MODEL_CALLS = _words("llm_query llm_batch llm_query_batched llm_map rlm_query rlm_query_batched")
HOST_CALLS = _words("llm_errors validate_json budget verify_quote")
"""Functions of the host whose answers are no evidence."""

OPAQUE_NAMES = _words(
    "exec eval compile globals locals vars setattr delattr __import__ breakpoint __builtins__ __loader__ "
    "_ __ ___ In Out get_ipython"
)
OPAQUE_MODULES = _words(
    """
    ctypes gc inspect importlib builtins marshal types dis ast code codeop runpy pickle copyreg tracemalloc faulthandler
    zmq ipykernel IPython sandbox multiprocessing subprocess socket os signal __main__ unittest mock doctest timeit
    profile cProfile pdb bdb trace pydoc shelve imp zipimport pkgutil site sitecustomize usercustomize cffi
    """
)
"""Modules by which code can reach names, frames or processes that are not in its text."""

OPAQUE_ATTRIBUTES = _words(
    "_getframe modules settrace setprofile f_globals f_locals f_back gi_frame cr_frame ag_frame tb_frame func_globals"
)
HARMLESS_DUNDERS = _words("__name__ __doc__ __len__ __init__ __version__")

PURE_MODULES = _words(
    """
    re json math statistics collections itertools datetime string textwrap functools csv io decimal fractions
    unicodedata html urllib hashlib base64 typing dataclasses enum time copy difflib
    """
)
"""Modules whose functions do not change their arguments."""

PURE_METHODS = _words(
    """
    split rsplit splitlines strip lstrip rstrip lower upper title casefold capitalize replace join format startswith
    endswith find rfind index rindex count partition rpartition isdigit isalpha isalnum isnumeric isspace isupper
    islower encode decode zfill ljust rjust center removeprefix removesuffix translate expandtabs swapcase format_map
    get items keys values copy most_common total elements union intersection difference symmetric_difference issubset
    issuperset isdisjoint group groups groupdict start end span finditer findall search match fullmatch
    date time isoformat strftime total_seconds timestamp weekday as_integer_ratio bit_length is_integer
    """
)
PARAMETER_METHODS = _words(
    """
    split rsplit splitlines strip lstrip rstrip startswith endswith find rfind index rindex count partition rpartition
    zfill ljust rjust center removeprefix removesuffix most_common finditer findall search match fullmatch group
    strftime strptime compile isoformat encode decode groupby
    """
)
"""Methods whose arguments say what to do, and are no part of the result."""

WHOLE_METHODS = _words("strip lstrip rstrip lower upper casefold replace copy expandtabs")
VIEW_METHODS = _words("items keys values")

PURE_FUNCTIONS = _words(
    """
    abs all any ascii bin bool bytes chr complex dict divmod enumerate filter float format frozenset hash hex id int
    isinstance issubclass iter len list map max min next oct ord pow print range repr reversed round set slice sorted
    str sum tuple type zip callable object input Counter defaultdict OrderedDict deque peek search chunk count_tokens
    getattr hasattr
    """
)
WHOLE_FUNCTIONS = _words("list tuple sorted enumerate reversed iter str chunk")
ITEM_FUNCTIONS = _words("max min list tuple sorted reversed set iter enumerate zip next")
"""Functions that return an item of their argument, or all of them."""

EMPTY = {"list": [], "set": [], "tuple": [], "str": "", "int": 0, "float": 0.0, "dict": {}, "Counter": {}}
"""What a type is without arguments, as JSON."""


@lru_cache(maxsize=1000)
def is_installed(module: str) -> bool:
    """Return whether a top-level module is Python's, or installed: any other may be a file that code wrote."""
    if module in sys.stdlib_module_names:
        return True
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError, AttributeError):
        return False
