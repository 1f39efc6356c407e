"""The schedule: the same for a seed, everything in it, and never more than a chain survives."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import pytest

from epicast.experiments.nemesis.running import Settings
from epicast.experiments.nemesis.schedule import (
    CLIENTS,
    LINKS,
    SIDECARS,
    Cast,
    Fault,
    Kind,
    draw_schedule,
)

CAST = Cast(("us", "eu", "ap"), 3, ("publisher-us", "subscriber-eu"), ("sidecar-us", "sidecar-eu"))
TEN_MINUTES_S = 600.0


def strikes(schedule: list[Fault], lane: str) -> list[list[Fault]]:
    mine = sorted((f for f in schedule if f.lane == lane), key=lambda f: (f.strike, f.at_s))
    return [list(strike) for _, strike in groupby(mine, lambda fault: fault.strike)]


def test_the_same_seed_draws_the_same_and_another_something_else() -> None:
    assert draw_schedule(7, 120.0, CAST) == draw_schedule(7, 120.0, CAST)
    assert draw_schedule(7, 120.0, CAST) != draw_schedule(8, 120.0, CAST)
    settings = Settings(seconds=60.0, seed=3)
    assert settings.schedule() == draw_schedule(3, 60.0, settings.cast)


@pytest.mark.parametrize("seed", range(20))
def test_ten_minutes_have_everything(seed: int) -> None:
    schedule = draw_schedule(seed, TEN_MINUTES_S, CAST)
    assert {fault.kind for fault in schedule} == {*Kind}
    assert {fault.lane for fault in schedule} == {*CAST.regions, LINKS, CLIENTS, SIDECARS}
    hit = Counter(fault.target for fault in schedule)
    replicas = [name for region in CAST.regions for name in CAST.replicas_of(region)]
    assert all(hit[name] for name in (*replicas, *CAST.clients, *CAST.sidecars))
    assert [fault.at_s for fault in schedule] == sorted(fault.at_s for fault in schedule)
    assert all(f.at_s > 0 and f.at_s + f.for_s < TEN_MINUTES_S for f in schedule)


@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(10))
def test_a_region_is_never_given_more_than_it_survives(seed: int, replicas: int) -> None:
    cast = Cast(("us", "eu"), replicas)
    schedule = draw_schedule(seed, TEN_MINUTES_S, cast)
    for region in cast.regions:
        ends = 0.0
        for strike in strikes(schedule, region):
            assert strike[0].at_s >= ends, "the last strike is not over"
            ends = max(fault.at_s + fault.for_s for fault in strike)
            kinds = [fault.kind for fault in strike]
            if Kind.BLACKOUT in kinds:  # all are killed, and no disk is lost
                assert kinds == [Kind.BLACKOUT] and strike[0].target == region
                continue
            targets = [fault.target for fault in strike]
            assert {*targets} <= {*cast.replicas_of(region)}
            assert len({*targets}) == len(targets), "one fault for each"
            if replicas > 1:
                assert len(targets) < replicas, "one is left alone"
            else:
                assert not {Kind.WIPE, Kind.CORRUPT} & {*kinds}, "nobody else has its history"
            if Kind.CORRUPT in kinds:
                assert len(kinds) == 1


def test_links_fail_one_after_the_other() -> None:
    schedule = draw_schedule(1, TEN_MINUTES_S, CAST)
    ends = 0.0
    for strike in strikes(schedule, LINKS):
        [fault] = strike
        assert fault.at_s >= ends
        ends = fault.at_s + fault.for_s
        if fault.kind is Kind.ISOLATE:
            assert fault.target in CAST.regions
        else:
            source, _, target = fault.target.partition("-")
            assert source != target and {source, target} <= {*CAST.regions}
    one_way = {f.target for f in schedule if f.kind is Kind.ONE_WAY}
    assert any(f"{b}-{a}" in one_way for a, b in (name.split("-") for name in one_way)), (
        "both ways, at some time"
    )


def test_a_single_region_has_no_links() -> None:
    schedule = draw_schedule(1, TEN_MINUTES_S, Cast(("us",), 3))
    assert {fault.lane for fault in schedule} == {"us"}


def test_some_kinds_only_and_one_at_a_time() -> None:
    kinds = {Kind.KILL, Kind.WIPE, Kind.BLACKOUT}
    cast = Cast(("us",), 3)
    schedule = draw_schedule(1, TEN_MINUTES_S, cast, kinds=kinds, two_at_once=False)
    assert {fault.kind for fault in schedule} == kinds
    assert {len(strike) for strike in strikes(schedule, "us")} == {1}
    assert 2 in {len(strike) for strike in strikes(draw_schedule(1, TEN_MINUTES_S, cast), "us")}
