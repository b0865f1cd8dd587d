"""What a kernel says of itself."""

from __future__ import annotations

import sys
from typing import Any

from ..wire import PROTOCOL_VERSION


def kernel_info() -> dict[str, Any]:
    """Return the content of a `kernel_info_reply`."""
    version = ".".join(map(str, sys.version_info[:3]))
    return {
        "status": "ok",
        "protocol_version": PROTOCOL_VERSION,
        "implementation": "rlm-sandbox",
        "implementation_version": "1",
        "language_info": {
            "name": "python",
            "version": version,
            "mimetype": "text/x-python",
            "file_extension": ".py",
            "pygments_lexer": "ipython3",
            "codemirror_mode": {"name": "ipython", "version": 3},
            "nbconvert_exporter": "python",
        },
        "banner": f"Python {version}, sandboxed",
        "help_links": [],
    }
