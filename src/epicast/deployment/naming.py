"""Names people give, and the numbers that travel instead of them.

An id is a hash of the name: whoever knows the name of a stream or a region knows its id, on every
machine and in every version, without asking anyone. Ids stay below 2**63, so that databases and
data frames whose integers are signed hold them too, and are never 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from hashlib import blake2b

from epicast.core.errors import EpicastError
from epicast.core.ids import NodeId

MAX_DERIVED_ID = 2**63 - 1
MAX_TOPIC_ID = 2**32 - 1
MAX_NAME_LENGTH = 64
_NAME = re.compile(r"[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)*")
NAME_RULE = (
    f"a name is a lower-case letter followed by lower-case letters, digits, '-', '_' and single "
    f"dots inside, {MAX_NAME_LENGTH} characters at most"
)


class UnknownStream(EpicastError):
    """No stream of that name; the message lists those there are."""


class UnknownTopic(EpicastError):
    """No topic of that name; the message lists those there are."""


class UnknownRegion(EpicastError):
    """No region of that name; the message lists those there are."""


def is_name(text: str) -> bool:
    """Whether `text` may name a stream, a topic or a region: safe as a folder and in a log line."""
    return len(text) <= MAX_NAME_LENGTH and _NAME.fullmatch(text) is not None


def node_id_of(name: str) -> NodeId:
    """The id of a node by its name. A region's proxy bears the name of the region."""
    return _hashed(name, b"epicast node")


def stream_id(name: str) -> int:
    return _hashed(name, b"epicast stream")


def topic_id(name: str, mode: str) -> int:
    """The number of a topic, 1 to 2**32 - 1: messages have room for no more. The same name in
    another mode is another topic: those protocols would not understand each other."""
    return 1 + _hashed(f"{mode} {name}", b"epicast topic") % MAX_TOPIC_ID


def _hashed(name: str, purpose: bytes) -> int:
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, person=purpose).digest()
    return 1 + int.from_bytes(digest, "little") % MAX_DERIVED_ID


def collisions(names: Iterable[str], id_of: Callable[[str], int]) -> list[tuple[str, str]]:
    """Pairs of names that share an id. Improbable, but it would mix two streams for good."""
    owners: dict[int, str] = {}
    return [
        (owner, name) for name in names if (owner := owners.setdefault(id_of(name), name)) != name
    ]


def not_among(kind: str, name: str, known: Iterable[str]) -> str:
    """ "there is no stream 'prizes'; did you mean 'prices'? There are: audit, prices"."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    hint = f" did you mean '{near[0]}'?" if near else ""
    listing = f"there are: {', '.join(names)}" if names else "there are none"
    if hint:
        return f"there is no {kind} {name!r};{hint} ({listing})"
    return f"there is no {kind} {name!r}; {listing}"
