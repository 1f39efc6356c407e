"""The members of one etcd: whoever answers as etcd does is as good as any other.

A member can refuse connections, accept them and hang, have lost the others, or be something else
altogether, such as a gateway whose page says that nobody is behind it. All that is the same here:
it is unable, and the next one is asked. Who was able is asked first the next time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from ssl import SSLContext
from typing import Any, TypeVar

from epicast.coordination.etcd_answers import Answer, Watched, decoded
from epicast.coordination.etcd_member import Member, Reply, Unable
from epicast.coordination.model import CoordinationError

Outcome = TypeVar("Outcome")


class Members:
    def __init__(
        self, addresses: Sequence[str], patience_s: float, context: SSLContext | None = None
    ) -> None:
        self._members = [Member(address, patience_s, context) for address in addresses]
        self._turn = 0
        """Who is asked first."""

    def ask(
        self, method: str, request: dict[str, Any], kind: type[Answer], *, repeatable: bool = True
    ) -> Answer:
        """What is not repeatable is asked of nobody else once somebody may have done it."""

        def answer(reply: Reply) -> Answer:
            return decoded(reply.whole(), kind)

        return self._first_able(method, request, answer, repeatable)

    def watch(self, request: dict[str, Any], patience_s: float) -> bool:
        """Whether there is anything to tell within this time, counted from when somebody watches:
        who was found to be unable has used up some already."""

        def tells(reply: Reply) -> bool:
            first = reply.line()  # says at least that it watches
            return _tells(first) or _tells_until(time.monotonic() + patience_s, reply)

        return self._first_able("watch", request, tells, repeatable=True)

    def _first_able(
        self,
        method: str,
        request: dict[str, Any],
        outcome: Callable[[Reply], Outcome],
        repeatable: bool,
    ) -> Outcome:
        problems = []
        for _ in self._members:
            member = self._members[self._turn]
            try:
                with member.asked(method, request) as reply:
                    return outcome(reply)
            except Unable as error:
                problems.append(f"{member.address}: {error}")
                self._turn = (self._turn + 1) % len(self._members)
                if error.asked and not repeatable:
                    break
        raise CoordinationError(f"no member of etcd answers as it should: {'; '.join(problems)}")


def _tells_until(deadline: float, reply: Reply) -> bool:
    try:
        while not _tells(reply.line(deadline)):
            pass
    except TimeoutError:
        return False
    return True


def _tells(line: bytes) -> bool:
    """That it stops watching is something to tell, too: what was missed has to be read."""
    changes = decoded(line, Watched).result
    return bool(changes.events) or changes.canceled
