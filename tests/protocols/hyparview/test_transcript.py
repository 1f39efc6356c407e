"""Four nodes join and one crashes: every message, in order.

A change of this file is a change of behaviour on the wire. If it is meant, run the test with
EPICAST_UPDATE_GOLDEN=1 and review the difference.
"""

import os
import re
from pathlib import Path
from random import Random

from epicast.core import Peer
from epicast.protocols.hyparview import HyParView, HyParViewConfig
from tests.protocols.harness import MS, SECOND, Network

GOLDEN = Path(__file__).parent / "golden" / "join.txt"


def test_join_transcript():
    network = Network()
    config = HyParViewConfig(active_view=3, shuffle_period_ns=4 * SECOND, repair_period_ns=SECOND)
    for me in range(1, 5):
        network.transcript.append(f"-- {me} starts")
        network.start(HyParView(Peer(me), config, Random(me)), [1] if me > 1 else [])
        network.run(200 * MS)
    network.transcript.append("-- 2 crashes")
    network.kill(2)
    network.run(SECOND)
    text = "\n".join(network.transcript) + "\n"
    text = re.sub(r"Peer\(id=(\d+), host='', port=0\)", r"#\1", text)
    if os.environ.get("EPICAST_UPDATE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
