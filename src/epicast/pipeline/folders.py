"""Where what is made once and used again is kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "epicast" / "spark"


def keep_file(file: Path, text: str, mode: int = 0o644) -> Path:
    """Have a file with this text; another process may be doing the same."""
    if not file.exists() or file.read_text("utf-8") != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_name(f"{file.name}.{os.getpid()}")
        fresh.write_text(text, "utf-8")
        fresh.chmod(mode)
        fresh.replace(file)
    return file
