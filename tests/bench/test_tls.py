"""`bench tls` measures what it says: the encrypted relay is encrypted, and both move the bytes."""

from pathlib import Path

from bench.bench_relay import CERTIFICATES, measure, security
from bench.bench_tls import prepare
from epicast.deployment import parse_geoplex
from epicast.experiments.geo_load import LATEST_PER_KEY, REGIONS, document
from epicast.pipeline.gateway import changed_environment


def test_relay(tmp_path: Path) -> None:
    table = prepare(tmp_path)
    geoplex = parse_geoplex(document(REGIONS, LATEST_PER_KEY, None) + table, "load")
    assert geoplex.security is not None
    assert security() is None
    with changed_environment({CERTIFICATES: str(tmp_path)}):
        assert security() is not None
        assert measure("drive_receiver", "drive_sender", 5_000_000) > 0
    assert security() is None
