"""A whole geoplex on this machine, each proxy a process of its own.

    with LocalGeoplex(data=Path("data")) as local:
        print(local.address("us"))      # epicast://127.0.0.1:…
        local.kill("us")                # SIGKILL
        local.start("us")

For `epicast up`, demonstrations, tests and benchmarks. Blocking, for one thread at a time.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

from epicast.core import EpicastError
from epicast.deployment import EMBEDDED_PORTS, Geoplex, embedded_geoplex
from epicast.geo.births import Ended, Failed, Ready
from epicast.geo.logs import LogFormat
from epicast.geo.nursery_process import NurseryProcess, StartFailed
from epicast.geo.ports import free_ports, moved, next_free_ports

if TYPE_CHECKING:
    from epicast.geo.status import ProxyStatus

_PORT_ATTEMPTS = 3
_PATIENCE_S = 2.0
"""After which somebody who watches is told what takes so long."""


class LocalGeoplex:
    """A context manager; or `open` and `close`."""

    def __init__(
        self,
        geoplex: Geoplex | None = None,
        *,
        data: Path | None = None,
        any_ports: bool | None = None,
        first_port: int | None = None,
        start_timeout_s: float = 120.0,
        stop_timeout_s: float = 10.0,
        log_format: LogFormat = "text",
        log_level: str = "warning",
        errors: IO[bytes] | None = None,
        say: Callable[[str], object] = lambda _: None,
    ) -> None:
        """Without a geoplex it is the embedded one, its histories in `data`, or in memory.

        With `any_ports` free ports are used instead of those the geoplex names; so they are if
        none is given. With `first_port` these are the first free ones from there on. What proxies
        write to stderr goes to `errors`, if that is given. `say` is told of whatever takes long.
        """
        if geoplex is None:
            folder = None if data is None else str(data.absolute())
            geoplex = embedded_geoplex(EMBEDDED_PORTS, folder)
            any_ports = True if any_ports is None else any_ports
        elif data is not None:
            raise ValueError("data: a geoplex that is given says itself where its data is")
        self.geoplex = geoplex
        """With the ports in use."""
        self._any_ports = bool(any_ports) or first_port is not None
        self._first_port = first_port
        self._start_timeout_s = start_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._logs = (log_format, log_level)
        self._errors = errors
        self._say = say
        self._nursery: NurseryProcess | None = None

    # -- life ------------------------------------------------------------------------------------

    def open(self) -> Self:
        """Start all proxies and wait until they accept connections; all or none."""
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            if self._any_ports:
                self._choose_ports()
            self._nursery = NurseryProcess(
                self.geoplex, *self._logs, self._stop_timeout_s, self._errors
            )
            try:
                self._start([replica.name for replica in self.geoplex.replicas])
                break
            except StartFailed as error:
                self.close()
                # Between choosing a port and listening on it, somebody else may have taken it.
                taken = self._any_ports and "cannot listen" in str(error)
                if not taken or attempt == _PORT_ATTEMPTS:
                    raise
            except BaseException:
                self.close()
                raise
        return self

    def close(self) -> None:
        """Stop all proxies in good order; those that do not stop in time are killed."""
        nursery, self._nursery = self._nursery, None
        if nursery is not None:
            nursery.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # -- single proxies --------------------------------------------------------------------------

    @property
    def processes(self) -> Mapping[str, int]:
        """Process ids of the proxies that run, by region; those of replicas by their names, such as
        `us/2`."""
        self.ended()
        return dict(self._running.pids)

    def kill(self, region: str) -> None:
        """SIGKILL: no goodbye. Returns once it is gone."""
        self._signal(region, signal.SIGKILL)

    def stop(self, region: str) -> None:
        """SIGTERM: in good order. Returns once it is gone."""
        self._signal(region, signal.SIGTERM)

    def start(self, region: str) -> None:
        """Start a proxy that was stopped or killed; returns once it accepts connections."""
        name = self.geoplex.replica(region)[1].name
        if name in self.processes:
            raise EpicastError(f"the proxy of {name!r} runs already; stop or kill it first")
        self._start([name])

    def launch(self, region: str) -> None:
        """The same without waiting: it is among `processes` once it accepts connections."""
        self._running.start(self.geoplex.replica(region)[1].name)

    def ended(self) -> list[Ended]:
        """The proxies that have ended since the last time this was asked."""
        found: list[Ended] = []
        while (report := self._running.next_report(0)) is not None:
            if isinstance(report, Ended):
                found.append(report)
        return found

    def wait_ended(self, timeout_s: float) -> Ended | None:
        """The next proxy to end, if one does in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            report = self._running.next_report(max(0.0, deadline - time.monotonic()))
            if report is None or isinstance(report, Ended):
                return report

    # -- looking inside --------------------------------------------------------------------------

    def address(self, region: str) -> str:
        """What to give to `epicast.connect`."""
        scheme = "epicast" if self.geoplex.security is None else "epicasts"
        replicas = self.geoplex.region(region).replicas
        return f"{scheme}://" + ",".join(str(replica.address) for replica in replicas)

    def status(self) -> dict[str, ProxyStatus]:
        """Of the proxies that run, by region. Not from inside an event loop: there, await
        `geo.status.ask_status`."""
        from epicast.geo.security import proxy_files
        from epicast.geo.status import ask_status
        from epicast.runtime import run
        from epicast.runtime.tls import Tls, dialing_context

        found = {}
        for region in self.processes:
            files = proxy_files(self.geoplex, region)
            tls = None if files is None else Tls(dialing_context(files, by_host=False))
            found[region] = run(ask_status(*self.geoplex.replica(region)[1].address, tls=tls))
        return found

    # -- inside ----------------------------------------------------------------------------------

    @property
    def _running(self) -> NurseryProcess:
        if self._nursery is None:
            raise EpicastError("the geoplex is not running: use `with`, or call open() first")
        return self._nursery

    def _choose_ports(self) -> None:
        hosts: dict[str, list[str]] = {}
        for replica in self.geoplex.replicas:
            hosts.setdefault(replica.listen.host, []).append(replica.name)
        for host, names in hosts.items():
            if self._first_port is None:
                ports = free_ports(len(names), host)
            else:
                ports = next_free_ports(len(names), self._first_port, host)
            self.geoplex = moved(self.geoplex, dict(zip(names, ports, strict=True)))

    def _start(self, regions: Iterable[str]) -> None:
        waiting = list(regions)
        for region in waiting:
            self._running.start(region)
        began = time.monotonic()
        patient = True
        while waiting:
            passed = time.monotonic() - began
            if passed >= self._start_timeout_s:
                raise StartFailed(
                    f"not ready after {self._start_timeout_s:g} s: {', '.join(waiting)}; raise the "
                    "time limit if there is much history to read"
                )
            if patient and passed >= _PATIENCE_S:
                patient = False
                self._say("Still starting: code is compiled the first time, or history is read …")
            report = self._running.next_report(_PATIENCE_S if patient else 10.0)
            if isinstance(report, Failed):
                raise StartFailed(f"{report.region}: {report.error}".removeprefix(": "))
            if isinstance(report, Ended) and report.region in waiting:
                raise StartFailed(
                    f"the proxy of {report.region!r} ended with status {report.status}; what it "
                    "wrote to stderr says why"
                )
            if isinstance(report, Ready):
                waiting.remove(report.region)

    def _signal(self, region: str, number: signal.Signals) -> None:
        pid = self.processes.get(self.geoplex.replica(region)[1].name)
        if pid is None:
            raise EpicastError(f"the proxy of {region!r} does not run")
        os.kill(pid, number)
        deadline = time.monotonic() + self._stop_timeout_s
        while pid in self._running.pids.values():
            self._running.next_report(max(0.0, deadline - time.monotonic()))
            if time.monotonic() > deadline and number != signal.SIGKILL:
                os.kill(pid, signal.SIGKILL)
