"""The list of experiments: near misses are pointed out, nothing is imported for nothing."""

import pytest

from epicast.core import ConfigError
from epicast.experiments.model import Scale
from epicast.experiments.registry import Registry, default_registry
from epicast.experiments.tasks import make_tasks
from tests.unit.experiments.synthetic import HERE, Averages, registry


def test_by_name_and_by_claim() -> None:
    assert isinstance(registry().get("averages"), Averages)
    assert registry().covering("T2").name == "averages"
    assert registry().covering("t4").name == "faulty"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("averges", "there is no experiment 'averges'; did you mean 'averages'?"),
        ("zzz", "there is no experiment 'zzz'; see: epicast experiment list"),
    ],
)
def test_unknown_name(name: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        registry().get(name)
    assert str(caught.value) == message


def test_unknown_or_ambiguous_claim() -> None:
    with pytest.raises(ConfigError, match="claim 'Z9'; covered: T1, T2, T3, T4, T5"):
        registry().covering("Z9")
    twice = Registry({"averages": f"{HERE}:Averages", "again": f"{HERE}:Again"})
    with pytest.raises(ConfigError, match="claim 'T1'; name one of: averages, again"):
        twice.covering("T1")


def test_names_do_not_import() -> None:
    broken = Registry({"a": "no.such.module:A", "averages": f"{HERE}:Averages"})
    assert broken.names() == ["a", "averages"]
    assert broken.get("averages").name == "averages"


def test_the_real_experiments_have_points_at_every_scale() -> None:
    for experiment in default_registry().all():
        for scale in Scale:
            assert make_tasks(experiment, scale, 1)
