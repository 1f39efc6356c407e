from pathlib import Path

import pytest

from tests.security.support import Secured


@pytest.fixture
def secured(tmp_path: Path) -> Secured:
    return Secured(tmp_path)
