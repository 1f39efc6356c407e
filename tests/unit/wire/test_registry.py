import pytest

from epicast.core import ConfigError, EventBatch, Message, WireError
from epicast.wire import FrameEncoder, message_type, register, registered, type_id_of
from tests.unit.wire.samples import Events, Ping


def test_registered_type_knows_its_number() -> None:
    assert Ping.type_id == 65280
    assert message_type(65280) is Ping
    assert type_id_of(Ping()) == 65280
    assert registered()[65280] is Ping


def test_number_cannot_be_used_twice() -> None:
    class Second(Message):
        pass

    with pytest.raises(ConfigError, match="belongs to Ping"):
        register(65280)(Second)
    assert message_type(65280) is Ping
    assert Second.type_id == -1


def test_class_cannot_have_two_numbers() -> None:
    with pytest.raises(ConfigError, match="has the type id 65280 already"):
        register(65500)(Ping)
    assert 65500 not in registered()


@pytest.mark.parametrize("number", [0, -1, 65536])
def test_number_must_fit(number: int) -> None:
    class Third(Message):
        pass

    with pytest.raises(ConfigError, match=str(number)):
        register(number)(Third)


def test_only_messages_register() -> None:
    with pytest.raises(ConfigError, match="not a Message"):
        register(65501)(EventBatch)  # type: ignore[type-var]


def test_unknown_number() -> None:
    with pytest.raises(WireError) as caught:
        message_type(65502)
    assert caught.value.reason == "unknown_type"


def test_unregistered_subclass_is_not_mistaken_for_its_base() -> None:
    class Derived(Events):
        more: int = 0

    message = Derived(EventBatch.build(1, 1, [b"a"]))
    with pytest.raises(ConfigError, match="Derived cannot cross the wire"):
        FrameEncoder().encode(message)
