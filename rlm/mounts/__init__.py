"""Files and folders as inputs: `rlm.File`, `rlm.Folder`, what a prompt says about them, and their hashes.

The sandbox shows them to a kernel (`sandbox/mounts.py`), and code there reads them (`sandbox/kernel/files.py`).
"""

from .file import File, Folder, files_in, has_files, holds_files

__all__ = ["File", "Folder", "files_in", "has_files", "holds_files"]
