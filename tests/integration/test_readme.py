"""What the README shows works as shown."""

import re
from pathlib import Path
from random import Random
from typing import Any

from epicast.core import EventBatch, Stack
from epicast.geo.local import LocalGeoplex
from epicast.protocols.cyclon import Cyclon, CyclonConfig
from epicast.runtime import run
from epicast.sim.simulation import Simulation

README = Path(__file__).parents[2] / "README.md"


def python_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_the_client_of_the_readme_runs() -> None:
    code, _ = python_blocks()
    with LocalGeoplex() as local:
        code = code.replace("epicast://127.0.0.1:7400", local.address("us"))
        namespace: dict[str, Any] = {}
        exec(code, namespace)
        cache: dict[bytes, bytes] = {}
        run(namespace["keep_in_step"](cache))
    assert cache == {b"ACME": b"42.0"}


def test_the_protocol_of_the_readme_runs() -> None:
    _, code = python_blocks()
    namespace: dict[str, object] = {}
    exec(code, namespace)
    protocol = namespace["TellEveryoneIKnow"]
    simulation = Simulation(1)
    for identity in range(1, 7):
        contacts = [simulation.nodes[1].peer] if identity > 1 else []
        simulation.add_node(
            lambda peer, rng: Stack(
                peer,
                rng,
                [Cyclon(peer, CyclonConfig(), Random(peer.id)), protocol(peer, None, rng)],  # type: ignore[operator]
            ),
            contacts,
            identity,
        )
    simulation.run_for(60_000_000_000)
    simulation.publish(simulation.nodes[1], EventBatch.build(1, 1, [b"hello"]))
    simulation.run_for(1_000_000_000)
    assert simulation.delivered_events == 5


def test_the_readme_names_the_two_commands_first() -> None:
    text = README.read_text(encoding="utf-8")
    first_block = re.findall(r"```\n(.*?)```", text, re.DOTALL)[0]
    assert [line.split("#")[0].strip() for line in first_block.splitlines()] == [
        "make demo",
        "make test",
    ]
