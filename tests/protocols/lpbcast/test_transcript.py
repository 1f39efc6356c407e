"""Four nodes join, one publishes, one leaves: every message, in order.

A change of this file is a change of behaviour on the wire. If it is meant, run the test with
EPICAST_UPDATE_GOLDEN=1 and review the difference.
"""

import os
import re
from pathlib import Path

from epicast.core import Publication
from tests.protocols.harness import MS
from tests.protocols.lpbcast.nodes import ROUND, batch, system

GOLDEN = Path(__file__).parent / "golden" / "join.txt"


def test_join_transcript():
    network = system(4, unsubscription_rounds=3)
    network.run(ROUND)
    network.transcript.append("-- 3 publishes")
    events = [Publication(3, 1, batch(3, 1, 2))]
    network.do(3, lambda p, fx: p.on_publish(network.now, events, fx))
    network.run(2 * ROUND)
    network.transcript.append("-- 2 leaves")
    network.leave(2)
    network.run(3 * ROUND - 10 * MS)
    text = "\n".join(network.transcript) + "\n"
    text = re.sub(r"Peer\(id=(\d+), host='', port=0\)", r"#\1", text)
    if os.environ.get("EPICAST_UPDATE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
