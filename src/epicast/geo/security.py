"""What `[security]` of a `geoplex.toml` means for a proxy and for a sidecar."""

from __future__ import annotations

import logging

from epicast.core import NodeId
from epicast.deployment import AccessControl, Action, Geoplex
from epicast.deployment.security_section import REGION_MARK
from epicast.protocols.sprinkler import StreamInfo
from epicast.runtime.driver import NodeDriver
from epicast.runtime.gate import Rights, Security
from epicast.runtime.tls import (
    Tls,
    TlsFiles,
    accepting_context,
    dialing_context,
    readable_by_others,
)

log = logging.getLogger("epicast.geo")


def proxy_files(geoplex: Geoplex, region: str) -> TlsFiles | None:
    """The files of a region's proxy; None without security."""
    section = geoplex.security
    if section is None:
        return None
    name = geoplex.replica(region)[0].name
    return TlsFiles(section.ca, _of(section.certificate, name), _of(section.key, name))


def agent_files(geoplex: Geoplex, region: str) -> TlsFiles | None:
    section = geoplex.security
    if section is None:
        return None
    name = geoplex.region(region).name
    return TlsFiles(section.ca, _of(section.agent_certificate, name), _of(section.agent_key, name))


def node_security(geoplex: Geoplex, files: TlsFiles | None) -> Security | None:
    """For a node that knows the file: who is dialled is known by its certificate's role."""
    access = geoplex.access()
    if access is None or files is None:
        return None
    if files.key is not None and readable_by_others(files.key):
        log.warning("%s can be read by others than its owner: chmod 600 %s", files.key, files.key)
    tls = Tls(dialing_context(files, by_host=False), accepting_context(files))
    return Security(tls, access)


class Permission:
    """Answers for those connected to a driver; see `protocols.sprinkler.permits`."""

    def __init__(self, access: AccessControl, driver: NodeDriver) -> None:
        self._rights = Rights(access, driver.identity_of)

    def __call__(self, peer: NodeId, action: Action, info: StreamInfo | None) -> str:
        return self._rights.permit(peer, action, "" if info is None else info.name)


def _of(path: str, region: str) -> str:
    return path.replace(REGION_MARK, region)
