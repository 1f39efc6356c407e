"""Early delivery as an application sees it: events first, what is certain about them later."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from epicast.client.topics.items import Confirmed, Gap, Revised
from epicast.client.topics.subscription import Queued, TopicSubscription
from epicast.core import EventBatch
from epicast.protocols.epto import EarlyReader, EarlyStep, Epto
from epicast.protocols.epto.early import check_probability
from epicast.protocols.epto.entries import by_source


class EarlySubscription(TopicSubscription):
    """Made by `Topic.subscribe(early=...)`. Counted is what the application has been given: what
    waits for it here has not happened yet, as far as it is concerned."""

    def __init__(
        self,
        probability: float,
        window_bytes: int,
        forget: Callable[[TopicSubscription], object],
    ) -> None:
        check_probability(probability)
        super().__init__(window_bytes, forget)
        self.probability = probability
        self.reader: EarlyReader | None = None
        """Of the topic's protocol, while it runs."""
        self._given = self._confirmed = 0
        self._begins_anew = False

    # -- from the topic --------------------------------------------------------------------------

    def receive(self, batch: EventBatch | Gap) -> None:
        if isinstance(batch, Gap):  # events come by `receive_step`
            self._receive_all([batch])

    def receive_step(self, step: EarlyStep) -> None:
        items: list[Queued] = []
        if step.revised:
            items.append(Revised(step.revised))
        if step.batch is not None:
            items += by_source(step.batch)
        if step.confirmed:
            items.append(Confirmed(step.confirmed))
        self._receive_all(items)

    def _receive_all(self, items: Sequence[Queued]) -> None:
        had_some = bool(self._queue)
        for item in items:
            self._put(item)
        if had_some and self._queued_bytes > self._window_bytes:
            self.begin_anew()
        self._bell.ring()

    def begin_anew(self) -> None:
        """Give up all that is here, and have what is not final given again. The application is told
        that what it has and was not confirmed is void, and how many final events it has missed."""
        lost = sum(item.events for item in self._queue if isinstance(item, Confirmed | Gap))
        self._queue.clear()
        self._queued_bytes = 0
        self._gap += lost
        self.dropped += lost
        self._begins_anew = True
        if self.reader is not None:
            self.reader.restart()

    # -- reading ---------------------------------------------------------------------------------

    def _take(self) -> Queued | None:
        if self._begins_anew:
            self._begins_anew = False
            void, self._given = self._given - self._confirmed, self._confirmed
            if void:
                return Revised(void, self._confirmed)
        item = super()._take()
        if isinstance(item, EventBatch):
            self._given += item.rows
        elif isinstance(item, Confirmed):
            self._confirmed += item.events
            return Confirmed(item.events, self._confirmed)
        elif isinstance(item, Revised):
            self._given -= item.events
            return Revised(item.events, self._given)
        return item


class EarlySubscriptions:
    """Those of a topic, and the readers of its protocol, which is started later than they are made,
    and sometimes once more."""

    def __init__(self) -> None:
        self._order: Epto | None = None
        self._subscriptions: list[EarlySubscription] = []

    def add(self, subscription: EarlySubscription) -> None:
        self._subscriptions.append(subscription)
        self._attach(subscription)

    def remove(self, subscription: EarlySubscription) -> None:
        self._subscriptions.remove(subscription)
        if self._order is not None and subscription.reader is not None:
            self._order.early.remove(subscription.reader)

    def follow(self, order: Epto) -> None:
        """The topic's protocol was started."""
        self._order = order
        for subscription in self._subscriptions:
            subscription.begin_anew()
            self._attach(subscription)

    def _attach(self, subscription: EarlySubscription) -> None:
        if self._order is not None:
            subscription.reader = self._order.early.add(subscription.probability)

    def receive(self, step: EarlyStep) -> None:
        for subscription in self._subscriptions:
            if subscription.reader is not None and subscription.reader.number == step.reader:
                subscription.receive_step(step)
