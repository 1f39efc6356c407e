"""Without the extra that compiles, services say what to install."""

import sys

import pytest

from epicast.core import EpicastError
from epicast.geo.proxy import ProxyService
from epicast.runtime import run
from tests.geo.support import make_geoplex


def test_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)  # what an import finds as missing

    async def scenario() -> None:
        service = ProxyService(make_geoplex(), "us")
        with pytest.raises(EpicastError, match=r"pip install 'epicast\[server\]'"):
            await service.start()
        await service.stop()

    run(scenario())
