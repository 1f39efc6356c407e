"""A plain client: everything it gets comes from the proxy or sidecar it is attached to."""

from __future__ import annotations

from epicast.protocols.sprinkler.config import ClientConfig
from epicast.protocols.sprinkler.edge import Edge


class Client(Edge[ClientConfig]):
    pass
