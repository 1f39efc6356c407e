"""A process that is the sidecar of a region."""

from __future__ import annotations

from epicast.deployment import Geoplex
from epicast.experiments.parts import Leader
from epicast.geo.agent import AgentService
from epicast.runtime import run
from epicast.runtime.services import serve


def serve_sidecar(leader: Leader, geoplex: Geoplex, region: str, port: int) -> None:
    """Serve until SIGTERM, or until the leading process ends."""
    service = AgentService(geoplex, region, port=port)
    run(serve(service, ready=lambda: leader.send("ready"), lifeline=leader.fileno()))
