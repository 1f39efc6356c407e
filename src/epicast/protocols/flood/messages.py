from epicast.core import EventBatch, Message
from epicast.wire import register


@register(48)
class Flooded(Message):
    """Events on their way to everybody."""

    batch: EventBatch
