"""What a real geoplex wrote down, audited: nothing is wrong, until somebody makes it so."""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.numpy_audit import audit_in_memory
from epicast.geo.local import LocalGeoplex
from epicast.runtime import run
from tests.geo.test_evidence import geoplex, use


def test_a_real_geoplex(tmp_path: Path) -> None:
    with LocalGeoplex(geoplex(tmp_path), any_ports=True) as local:
        run(use(local.address("us"), local.address("eu"), tmp_path))
    evidence = tmp_path / "evidence"
    result = audit_in_memory(evidence)
    assert result.violations == {}
    assert result.holds
    assert result.is_complete
    counts = result.totals.counts
    assert counts.acked == result.events == 356
    # Two applications follow the prices.
    assert counts.owed == 2 * 355
    assert counts.tombstoned > 0
    assert {line.stream for line in result.subscribers} == {"prices"}

    [owner] = evidence.glob("owner-us-*")
    shutil.rmtree(owner)
    result = audit_in_memory(evidence)
    assert result.ownerless == ["prices"]
    assert result.totals.counts.unjudged == 2 * 355 + 355
    assert not result.holds
