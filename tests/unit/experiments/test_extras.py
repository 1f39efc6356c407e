"""A plain installation is told what to install, before any work is done."""

import sys

import pytest

from epicast.core import EpicastError
from epicast.experiments.extras import require_extras


@pytest.mark.parametrize("package", ["pyarrow", "matplotlib"])
def test_missing_package_names_the_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_extras()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        EpicastError, match=rf"needs {package} .*pip install 'epicast\[experiments\]'"
    ):
        require_extras()
