"""Compile everything first: no step takes the time of a compiler then."""

from epicast.log import warming
from epicast.protocols.topic_modes import TOPIC_MODES


def warm_up() -> None:
    warming.warm_up()
    for mode in TOPIC_MODES.values():
        mode.warm_up()
