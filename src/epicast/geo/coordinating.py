"""The coordination service behind its reserved id: answers what replicas say to it.

The service is asked in threads of its own, so a slow one never holds up a replica. One that does
not answer is a message without an answer: replicas ask again.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from contextlib import suppress

from epicast.coordination import Coordinator, open_coordinator
from epicast.coordination.model import CoordinationError, View
from epicast.core import AnyMessage
from epicast.protocols.coordination import Put, PutAnswer, ViewEntry, Watch
from epicast.protocols.coordination import View as ViewMessage

log = logging.getLogger("epicast.geo")

_MOST_WAITING = 256
_PATIENCE_S = 1.0
_PAUSE_S = 0.5
Answer = Callable[[AnyMessage], None]


class Coordination:
    """`start`, `send` at will, `stop` in the end. Answers come from other threads."""

    def __init__(self, address: str, answer: Answer) -> None:
        self._address = address
        self._answer = answer
        self._requests: queue.Queue[Put | Watch | None] = queue.Queue(_MOST_WAITING)
        self._prefix = ""
        self._watching = threading.Event()
        self._over = threading.Event()
        self._room = _Complaints(address)
        self._threads = [
            threading.Thread(target=work, name=f"coordination {name}", daemon=True)
            for name, work in (("requests", self._serve), ("watch", self._watch))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def send(self, message: AnyMessage) -> None:
        """What finds no room is lost, as on any way to a service that does not keep up."""
        if isinstance(message, (Put, Watch)):
            try:
                self._requests.put_nowait(message)
            except queue.Full:
                self._room.about("it does not keep up")
            else:
                self._room.over()

    def stop(self) -> None:
        self._over.set()
        self._watching.set()
        with suppress(queue.Full):  # then the thread has something to do, and looks at `_over`
            self._requests.put_nowait(None)
        for thread in self._threads:
            thread.join(_PATIENCE_S)

    # -- threads ---------------------------------------------------------------------------------

    def _serve(self) -> None:
        service: Coordinator | None = None
        complaints = _Complaints(self._address)
        while not self._over.is_set():
            message = self._requests.get()
            if message is None:
                break
            try:
                service = service or open_coordinator(self._address)
                self._answer(self._handle(service, message))
                complaints.over()
            except CoordinationError as error:
                complaints.about(str(error))
        if service is not None:
            service.close()

    def _handle(self, service: Coordinator, message: Put | Watch) -> AnyMessage:
        if isinstance(message, Put):
            revision = service.put(message.key, message.value, message.revision)
            return PutAnswer(message.request, message.key, revision or 0)
        view = service.read(message.prefix)
        self._prefix = message.prefix
        self._watching.set()
        return _as_message(message.prefix, view)

    def _watch(self) -> None:
        """Tell of changes without being asked."""
        self._watching.wait()
        service: Coordinator | None = None
        complaints = _Complaints(self._address)
        after = 0
        while not self._over.is_set():
            try:
                service = service or open_coordinator(self._address)
                view = service.wait(self._prefix, after, _PATIENCE_S)
                complaints.over()
                if view is not None and view.revision > after:
                    after = view.revision
                    self._answer(_as_message(self._prefix, view))
                elif view is not None:  # nothing new, and perhaps no sooner again than now
                    self._over.wait(_PAUSE_S)
            except CoordinationError as error:
                complaints.about(str(error))
                self._over.wait(_PAUSE_S)
        if service is not None:
            service.close()


class _Complaints:
    """Each is made once, until it is over or there is another."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._last = ""

    def about(self, problem: str) -> None:
        if problem != self._last:
            self._last = problem
            log.warning("the coordination service %s: %s; trying again", self._address, problem)

    def over(self) -> None:
        self._last = ""


def _as_message(prefix: str, view: View) -> ViewMessage:
    entries = (ViewEntry(key, entry.value, entry.revision) for key, entry in view.entries.items())
    return ViewMessage(prefix, view.revision, tuple(entries))
