"""Where what is made once and used again is kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "epicast" / "spark"
