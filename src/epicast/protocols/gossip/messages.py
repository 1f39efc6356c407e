from epicast.core import EventBatch, Message
from epicast.wire import register


@register(56)
class Rumor(Message):
    """Events on their way; forwarded as they came."""

    batch: EventBatch
