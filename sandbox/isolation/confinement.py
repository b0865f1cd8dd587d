"""Which layers hold a kernel, and in which order they are put on: `separate`, a fork, then `confine`.

Covers: the order. Each layer is laid so that the later ones cannot undo it and still can be laid.

Does not cover: what a layer does (its own module says), which layers work on this machine (`probe`), descriptors, the
environment and the life of the process (the fork server), and the cgroup, which the fork server makes from outside.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import platform
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.isolation import landlock, namespaces, privileges, rlimits, seccomp
from sandbox.limits import Limits
from sandbox.mounts import INSIDE, Mount

LAYERS = frozenset({"namespaces", "landlock", "seccomp", "rlimits", "user", "cgroup"})

TIERS: Mapping[str, frozenset[str]] = {
    "namespaces": LAYERS,
    "landlock": LAYERS - {"namespaces"},
    "seatbelt": frozenset({"rlimits"}),
    "none": frozenset({"rlimits"}),
}


@dataclass(frozen=True, slots=True)
class Confinement:
    """How one kernel is to be held."""

    layers: frozenset[str]
    limits: Limits

    read_only: tuple[str, ...]
    """Host paths that the kernel may read. One that is a link is only a link: list what it leads to as well."""

    scratch: str
    """`/box` inside a private root; otherwise an empty host directory, mode 700, owned by `uid`."""

    uid: int | None = None
    """The user to become when we are root; nobody else's, neither another session's nor a real user's."""

    mounts: tuple[Mount, ...] = ()
    """What else the kernel may read, and cannot execute."""

    def __post_init__(self) -> None:
        unknown = self.layers - LAYERS
        if unknown:
            raise ValueError(f"Confinement: no such layer: {', '.join(sorted(unknown))}")
        if "namespaces" in self.layers and self.scratch != namespaces.SCRATCH:
            raise ValueError(f"Confinement: in a private root the scratch directory is {namespaces.SCRATCH}")
        if self.uid is not None and self.uid <= 0:
            raise ValueError(f"Confinement(uid={self.uid}): must be an ordinary user")

    def to_json(self) -> dict[str, Any]:
        """As plain values, for the fork server."""
        return {
            "layers": sorted(self.layers),
            "limits": dataclasses.asdict(self.limits),
            "read_only": list(self.read_only),
            "scratch": self.scratch,
            "uid": self.uid,
            "mounts": [mount.to_json() for mount in self.mounts],
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Confinement:
        """Return what `to_json` made."""
        return cls(
            layers=frozenset(values["layers"]),
            limits=Limits(**values["limits"]),
            read_only=tuple(values["read_only"]),
            scratch=values["scratch"],
            uid=values["uid"],
            mounts=tuple(map(Mount.from_json, values["mounts"])),
        )


def prepare() -> None:
    """In the fork server, before it forks: work out once what every child would else work out for itself."""
    if platform.machine() in seccomp.AUDIT_ARCH:
        seccomp.build(processes=True, private_root=True, pid=None)


def separate(c: Confinement, *, pids: bool = True) -> None:
    """In a freshly forked, single-threaded process: the next fork is process 1 of a world of its own.

    `pids=False`: this process is it already.
    """
    if "namespaces" in c.layers:
        namespaces.separate(pids=pids)


def confine(c: Confinement) -> None:
    """In the process that becomes the kernel, still single-threaded. When this returns, nothing can be undone."""
    root = os.geteuid() == 0
    private = "namespaces" in c.layers
    other_user = root and "user" in c.layers
    if other_user and c.uid is None:
        raise OSError(errno.EINVAL, "user: we are root and no uid was given to become")
    owner = c.uid if other_user and c.uid is not None else os.geteuid()

    # Looked up first: /proc is about to vanish, and paths may be out of reach for the user that we become.
    in_use = rlimits.address_space()
    # The kernel loads its inputs before any cell runs, then tightens this to what the session may really use.
    with_inputs = in_use + rlimits.INPUT_ROOM if in_use is not None else None
    ruleset = None
    if private:
        with _step("private root"):
            namespaces.enter_private_root(
                c.read_only, c.mounts, file_bytes=c.limits.file_bytes, file_count=c.limits.file_count, owner=owner
            )
    else:
        with _step("scratch"):
            os.chdir(c.scratch)
    if "landlock" in c.layers:
        writable = namespaces.WRITABLE if private else (c.scratch,)
        with _step("landlock"):
            # In a private root all of them are below one directory.
            mounts: Iterable[Mount | str] = c.mounts if not private else [INSIDE] if c.mounts else []
            ruleset = landlock.ruleset(c.read_only, writable, namespaces.DEVICES, mounts, flat=not private)

    if "rlimits" in c.layers:
        # A user namespace counts for itself; of root's users, the session's own does.
        counted = other_user or (private and not root)
        rlimits.apply(c.limits, address_space=with_inputs, count_processes=counted)
    if c.layers - {"rlimits", "cgroup"}:
        _drop_privileges(c, become=owner if other_user else None)
    if ruleset is not None:
        landlock.enforce(ruleset)
    if "seccomp" in c.layers:
        # Only in a pid namespace do all processes end with the kernel, and only a cgroup counts their memory together.
        processes = private and "cgroup" in c.layers
        pid = None if private else os.getpid()
        seccomp.install(seccomp.build(processes=processes, private_root=private, pid=pid))


def default_read_only() -> tuple[str, ...]:
    """Return what Python needs to import: the interpreter, its libraries, the installed packages, and this one."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = [
        sys.prefix,
        sys.base_prefix,
        sys.exec_prefix,
        sys.base_exec_prefix,
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("platstdlib"),
        *_site_packages(),
        *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
        *("/etc/ld.so.cache", "/etc/localtime"),
        # Of an editable install only the package, never the repository around it.
        package,
    ]
    return resolve(paths)


def resolve(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the real paths and the links that lead to them, without what lies inside another one; only what exists."""
    real: set[str] = set()
    links: set[str] = set()
    for path in paths:
        target = os.path.realpath(path)
        if target == "/":
            raise ValueError(f"{path} leads to the root directory: that would show the kernel everything")
        if os.path.exists(target):
            real.add(target)
            links |= _links_on(os.path.abspath(path))
    outer = {path for path in real if not _inside(path, real)}
    return tuple(sorted(outer | {link for link in links if not _inside(link, outer)}))


def _site_packages() -> list[str]:
    known = {os.path.abspath(path) for path in (*site.getsitepackages(), site.getusersitepackages())}
    return [path for path in sys.path if os.path.abspath(path) in known]


def _links_on(path: str) -> set[str]:
    """Return the links met on the way to the path, each by a name that has no link before it."""
    links: set[str] = set()
    for _ in range(40):  # as many as the system follows
        here = "/"
        for part in path.strip("/").split("/"):
            here = os.path.join(here, part)
            if Path(here).is_symlink():
                break
        else:
            return links
        links.add(here)
        rest = path[len(here) :].lstrip("/")
        path = os.path.normpath(os.path.join(os.path.dirname(here), Path(here).readlink(), rest))
    return links


def _inside(path: str, others: Iterable[str]) -> bool:
    return any(path != other and path.startswith(other + "/") for other in others)


@contextlib.contextmanager
def _step(name: str) -> Iterator[None]:
    """Say which step it was when the system only says which file."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        raise OSError(error.errno, f"{name}: {error.filename}: {error.strerror}") from error


def _drop_privileges(c: Confinement, *, become: int | None) -> None:
    keep: frozenset[int] = frozenset()
    if become is not None:
        privileges.become(become)
        # Landlock lists what may be opened and seccomp refuses to open by handle: only under both is it safe to keep
        # the right to read what other users may not. It is needed for directories on the way, where there is no private
        # root, and for files that the session was given.
        held = {"landlock", "seccomp"} <= c.layers
        private = "namespaces" in c.layers
        given = [mount.target if private else mount.source for mount in c.mounts]
        if held and privileges.unreachable(given if private else (*c.read_only, *given, c.scratch)):
            keep = frozenset({privileges.CAP_DAC_READ_SEARCH})
    privileges.drop_capabilities(keep)
    privileges.no_new_privileges()
    privileges.set_dumpable(False)
