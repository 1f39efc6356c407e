"""Damaged input gives `WireError` and nothing else. `python -m bench fuzz` runs a million."""

import pytest

from epicast.core import Message
from epicast.wire import REASONS
from tests.unit.wire.mutations import load_corpus, run_mutations
from tests.unit.wire.seeds import CORPUS, seeds


def test_corpus_is_what_the_code_encodes() -> None:
    """A difference is a change of the wire format: it needs a new version, then new files."""
    assert load_corpus(CORPUS) == seeds()


@pytest.mark.parametrize("seed", range(5))
def test_damaged_input(seed: int) -> None:
    outcomes, unexpected = run_mutations(load_corpus(CORPUS), 10_000, seed)
    assert not unexpected
    assert outcomes.total() == 10_000
    assert {*outcomes} - {"decoded", "incomplete"} == {*REASONS}, "every reason is reached"
    assert outcomes["decoded"] > 100, "damage behind the checksum does get through"


def test_unexpected_exceptions_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Message) -> None:
        raise KeyError("damaged")

    monkeypatch.setattr("epicast.core.batch.EventBatch.events", broken)
    outcomes, unexpected = run_mutations(load_corpus(CORPUS), 2_000, 1)
    assert outcomes["unexpected"] == len(unexpected) > 0
