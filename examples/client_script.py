"""Publishing and reading in a plain script.

    python examples/client_script.py epicast://127.0.0.1:7400

Ends with: ACME 44.0
"""

import sys

import epicast
from epicast import sync


def main(address: str) -> None:
    with sync.connect(address, agent=False) as node:
        prices = node.stream("prices")
        prices.publish_many(
            [b"42.0", b"17.0", b"43.0", b"44.0"], [b"ACME", b"EMCA"] + 2 * [b"ACME"]
        )
        latest: dict[bytes, bytes] = {}
        with prices.subscribe(after=0) as subscription:
            while items := subscription.pull(timeout=0.2):
                latest |= {i.key: i.payload for i in items if isinstance(i, epicast.Event)}
        for key in sorted(latest, reverse=True):
            print(key.decode(), latest[key].decode())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "epicast://127.0.0.1:7400")
