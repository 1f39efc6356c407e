"""The verdicts on claims L1 and L3 to L9, and on memory, on rows made up."""

from collections.abc import Callable
from math import log, sqrt
from random import Random
from typing import Any

import pytest

from epicast.core import Effects, Peer
from epicast.experiments.gossip_memory import GossipMemory
from epicast.experiments.gossip_rounds import paper_config, uniform_views
from epicast.experiments.lpbcast_joining import CountedMembership
from epicast.experiments.lpbcast_membership import DrawnViews, LpbcastMembership
from epicast.experiments.lpbcast_purging import LpbcastPurging
from epicast.experiments.lpbcast_rounds import LpbcastRounds, growth_residuals
from epicast.experiments.lpbcast_views import LpbcastViews
from epicast.experiments.model import Claim, Experiment, Scale
from epicast.experiments.pbcast_comparison import PbcastComparison
from epicast.experiments.results import Results
from epicast.experiments.verdicts import crossing, in_parts
from epicast.protocols.lpbcast.messages import Subscription

Rows = list[dict[str, Any]]


def judged(experiment: Experiment, rows: Rows) -> dict[str, Claim]:
    return {claim.id: claim for claim in experiment.claims(Results(Scale.PAPER, rows))}


def refused(claim: Claim) -> list[str]:
    """The parts that do not hold, or were not looked at."""
    parts = claim.detail.removeprefix("in part: ").split(". ")[0].split("; ")
    found = [part for part in parts if not part.endswith(": yes")]
    assert claim.holds is (not found)
    return found


def test_in_part_is_neither_all_nor_nothing() -> None:
    assert in_parts({"a": True, "b": True}) == (True, "a: yes; b: yes")
    assert in_parts({"a": True, "b": False}) == (False, "in part: a: yes; b: no")
    assert in_parts({"a": False}) == (False, "a: no")


def test_what_was_not_looked_at_does_not_hold() -> None:
    holds, told = in_parts({"a": True, "b": None})
    assert not holds and told == "in part: a: yes; b: absent, nothing was run for it"
    assert not in_parts({"a": None})[0] and not in_parts({})[0]


def test_where_a_curve_crosses() -> None:
    assert crossing([0.0, 0.5, 1.0], 0.75) == 1.5
    assert crossing([0.8, 0.9], 0.5) == 0
    assert crossing([0.1, 0.2], 0.5) == 2


# -- L1 --------------------------------------------------------------------------------------------


def spreading(
    law: Callable[[float], float] = lambda n: 2 * log(n),
    *,
    apart: Callable[[int], float] = lambda n: 0.3,
    views: tuple[float, ...] = (7.0, 6.5),
    sizes: tuple[int, ...] = (50, 125, 500, 1000),
    noise: float = 0.0,
) -> Claim:
    points = [("size", n, 15, law(n), law(n) - apart(n)) for n in sizes]
    points += [("view", 125, 10 * (i + 1), v, v - 0.1) for i, v in enumerate(views)]
    shares = (0.0, 0.2, 0.8, 1.0)
    rows = [
        {
            "figure": figure, "nodes": nodes, "fanout": 3, "view": view, "round": number,
            "computed": share, "simulated": share + noise * (-1) ** number,
            "simulated_rounds": simulated, "computed_rounds": computed,
        }
        for figure, nodes, view, simulated, computed in points
        for number, share in enumerate(shares)
    ]  # fmt: skip
    return judged(LpbcastRounds(), rows)["L1"]


def test_l1_holds_where_all_of_it_does() -> None:
    claim = spreading()
    assert refused(claim) == []
    assert "bounds are ours" in claim.detail
    assert "log n 0.000" in claim.ours


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"law": lambda n: sqrt(n) / 2}, "the logarithm of n fits"),
        ({"law": lambda n: n / 50}, "the logarithm of n fits"),
        ({"views": (7.0, 6.22)}, "the view size changes less than 0.75"),
        ({"apart": lambda n: 0.81}, "less than 0.75 apart"),
        ({"apart": lambda n: 2.7 if n == 1000 else 0.1}, "less than 0.75 apart at every size"),
        ({"noise": 0.2}, "curves correlate"),
        ({"law": lambda n: 5.0 - n / 1000}, "no doubling"),
    ],
)
def test_l1_does_not_hold(changes: dict[str, Any], part: str) -> None:
    claim = spreading(**changes)
    assert any(part in each and each.endswith(": no") for each in refused(claim)), claim.detail
    assert claim.detail.startswith("in part: ")


def test_l1_says_which_parts_are_absent() -> None:
    claim = spreading(views=(), sizes=(1000, 10_000, 100_000))
    assert refused(claim) == [
        "the view size changes less than 0.75 rounds: absent, nothing was run for it"
    ]
    assert "view sizes: not varied" in claim.ours
    assert len(refused(spreading(sizes=(1000,)))) == 2, "one size has no growth"


def test_growth_that_correlates_with_the_logarithm_is_not_logarithmic_for_that() -> None:
    sizes = (50, 75, 125, 250, 500, 1000)
    found = growth_residuals({n: sqrt(n) for n in sizes})
    assert found["sqrt n"] < 1e-9 < found["log n"]
    assert growth_residuals({50: 1.0, 100: 2.0}) == {}


# -- L3 to L5 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reliability", "holds"), [((0.94, 0.955), True), ((0.9, 0.96), False), ((0.95, 0.94), False)]
)
def test_l3_wants_a_slight_rise(reliability: tuple[float, float], holds: bool) -> None:
    rows = [{"view": view, "reliability": r} for view, r in zip((10, 35), reliability, strict=True)]
    assert judged(LpbcastViews(), rows)["L3"].holds is holds


def purging(
    age: float = 0.97, random: float = 0.72, age_failed: float = 0.95, random_failed: float = 0.7
) -> dict[str, Claim]:
    rows = [
        {"purging": kind, "rate": rate, "failures": failures, "delivery": delivery,
         "stable": stable, "redundant": 0.5 if kind == "age" else 0.6}
        for kind, rate, failures, delivery, stable in (
            ("age", 4.0, False, 1.0, 1.0), ("age", 30.0, False, age, 0.5),
            ("random", 4.0, False, 0.99, 0.8), ("random", 30.0, False, random, 0.1),
            ("age", 30.0, True, age_failed, 0.0), ("random", 30.0, True, random_failed, 0.0),
        )
    ]  # fmt: skip
    return judged(LpbcastPurging(), rows)


def test_l4_is_judged_by_part() -> None:
    assert refused(purging()["L4"]) == []
    assert refused(purging(random=0.93)["L4"]) == ["more than 0.05 more delivered: no"]
    assert len(refused(purging(random=0.965)["L4"])) == 2, "nor does the gain shrink at low rates"


def test_l5_says_what_failures_cost_and_which_purging_delivers_more_under_them() -> None:
    claim = purging()["L5"]
    assert refused(claim) == []
    assert "under failures 0.950 delivered with age-based, 0.700 with random" in claim.ours
    assert "without failures 0.970 and 0.720: failures cost 0.020 and 0.020" in claim.ours
    [part] = refused(purging(age_failed=0.93, random_failed=0.95)["L5"])
    assert "no less than random" in part
    [part] = refused(purging(age_failed=0.9)["L5"])
    assert part.startswith("failures cost age-based")


# -- L6 --------------------------------------------------------------------------------------------


def joined(
    known: dict[str, float] | None = None, little: dict[tuple[str, str], float] | None = None
) -> Claim:
    """By kind of membership the share that knows a joiner after a round; by kind and way of
    counting, those purged with room for 15: with room for 54 all is well."""
    usual = {"random": 0.4, "frequency": 0.5}
    known = usual | (known or {})
    good = {
        ("random", "frequency"): 0.3, ("random", "hearings"): 0.3,
        ("frequency", "frequency"): 0.0, ("frequency", "hearings"): 0.0,
    }  # fmt: skip
    rows = []
    for subs in (15, 54):
        purged = good | (little or {}) if subs == 15 else good
        for kind in ("random", "frequency"):
            aware = (0.0, known[kind] if subs == 15 else usual[kind], 1.0)
            rows += [
                {"part": "joining", "membership": kind, "subs": subs, "round": number,
                 "aware": share, "little_known_by_frequency": purged[kind, "frequency"],
                 "little_known_by_hearings": purged[kind, "hearings"]}
                for number, share in enumerate(aware)
            ]  # fmt: skip
    return judged(LpbcastMembership(), rows + mixed_rows() + timed_rows())["L6"]


def test_l6_holds_if_it_does_for_both_sizes_and_counts() -> None:
    claim = joined()
    assert refused(claim) == []
    assert claim.ours.count("0.0% against 30.0% by hearings") == 2


def test_l6_is_judged_with_little_room_too() -> None:
    many = {("frequency", "frequency"): 0.99, ("frequency", "hearings"): 0.99}
    claim = joined(little=many)
    assert [part[:11] for part in refused(claim)] == ["room for 15"] * 2
    assert "99.0% against 30.0% by Frequency" in claim.ours


def test_l6_is_judged_by_what_was_truly_heard_too() -> None:
    [part] = refused(joined(little={("frequency", "hearings"): 0.013}))
    assert part.endswith("by hearings: no")
    [part] = refused(joined(known={"frequency": 0.3}))
    assert part == "room for 15: news spreads faster: no"


def test_hearings_are_not_what_select_process_adds() -> None:
    """With room for one, and everybody heard of once, whoever is passed over gains a frequency."""
    config = paper_config(view_size=4, max_subs=2, membership="frequency")
    found = CountedMembership(Peer(1), config, Random(1))
    fx = Effects()
    for identity in (2, 3, 4, 5):
        found.hear([Subscription(Peer(identity), 0)], fx)
    assert sum(found.removed.values()) == found.removed_by_hearings.total() == 2
    assert set(found.removed) != {1}, "frequencies are more than hearings"
    assert dict(found.removed_by_hearings) == {1: 2}


def test_who_leaves_the_view_to_be_purged_at_once_is_counted() -> None:
    config = paper_config(fanout=1, view_size=1, max_subs=1, membership="random")
    found, fx = CountedMembership(Peer(1), config, Random(2)), Effects()
    for _ in range(3):
        for identity in range(2, 12):
            found.hear([Subscription(Peer(identity), 0)], fx)
            assert sum(found.removed.values()) == found.removed_by_hearings.total()
    heard = sum(times * n for times, n in found.removed_by_hearings.items())
    assert found.removed_by_hearings.total() > 20 and heard <= 30, "no hearing counts twice"


# -- L8 and L9 -------------------------------------------------------------------------------------


def timed_rows(rounds: tuple[float, ...] = (6.4, 6.2, 6.1, 6.0, 5.9), held: float = 0.1) -> Rows:
    ways = ((4, 0), (2, 0), (1, 0), (1, 1), (1, 3))
    rows: Rows = [
        {"part": "frequency", "every": every, "extra": extra, "rounds": needed}
        for (every, extra), needed in zip(ways, rounds, strict=True)
    ]
    for part, span in (("uniform", 0.0), ("held", held), ("gossiped", 0.7)):
        rows += [{"part": part, "view": 8, "rounds": 6 + span}]
        rows += [{"part": part, "view": 30, "rounds": 6.0}]
    return rows


def mixed_rows(uniform: float = 3.7, star: float = 3.8) -> Rows:
    return [
        {"part": "start", "start": start, "round": 40, "in_degree_deviation": deviation,
         "clustering": 0.25, "drawn_deviation": 3.6, "drawn_clustering": 0.22}
        for start, deviation in (("uniform", uniform), ("star", star), ("ring", uniform))
    ]  # fmt: skip


JOINED = [
    {"part": "joining", "membership": kind, "subs": 15, "round": number, "aware": 0.5 * number,
     "little_known_by_frequency": 0.0, "little_known_by_hearings": 0.0}
    for kind in ("random", "frequency") for number in (0, 1, 2)
]  # fmt: skip


def views(rows: Rows) -> dict[str, Claim]:
    return judged(LpbcastMembership(), JOINED + rows)


def test_l8_is_judged_both_ways() -> None:
    assert refused(views(timed_rows() + mixed_rows())["L8"]) == []
    slower = timed_rows((6.4, 6.2, 6.1, 6.0, 6.2)) + mixed_rows()
    [part] = refused(views(slower)["L8"])
    assert part.startswith("more often")
    [part] = refused(views(timed_rows((6.0, 6.2, 6.1, 6.0, 5.9)) + mixed_rows())["L8"])
    assert part.startswith("less often")


def test_l9_has_truly_uniform_views_beside_it() -> None:
    claim = views(timed_rows() + mixed_rows())["L9"]
    assert refused(claim) == []
    assert "views drawn uniformly: ±3.60, 0.220" in claim.ours
    claim = views(timed_rows() + mixed_rows(uniform=6.1, star=6.5))["L9"]
    assert refused(claim) == ["which is what uniform views are: no"]
    claim = views(timed_rows() + mixed_rows(star=6.5))["L9"]
    assert len(refused(claim)) == 2


def test_l9_is_judged_by_views_that_are_held() -> None:
    claim = views(timed_rows(held=0.3) + mixed_rows())["L9"]
    [part] = refused(claim)
    assert part.startswith("held uniform views")
    assert "0.30 rounds apart if uniform and held" in claim.ours


def test_held_views_stay_and_others_do_not() -> None:
    draw = uniform_views(100, 5, 1)
    held, drawn = (DrawnViews(1, draw, Random(1), held=kind) for kind in (True, False))
    seen = [{peer for _ in range(40) for peer in views.sample(3)} for views in (held, drawn)]
    assert len(seen[0]) == 5 and 1 not in seen[0]
    assert len(seen[1]) > 50 and 1 not in seen[1]


# -- L7 --------------------------------------------------------------------------------------------


def compared(partial: tuple[float, ...], strict: float = 0.9, lenient: float = 0.93) -> Claim:
    """Shares infected with partial views in rounds 2 to 6; all are in the end. With full views they
    are as below."""
    full = (0.2, 0.5, 0.9, 0.995, 1.0)
    rows: Rows = []
    for protocol, rising in (("pbcast, all known", full), ("pbcast, partial views", partial)):
        curve = [0.01, 0.05, *rising, *[1.0] * 6]
        rows += [
            {"part": "curve", "protocol": protocol, "fanout": 5, "round": n, "infected": share}
            for n, share in enumerate(curve)
        ]
    for protocol, fanout, limit, reliability in (
        ("pbcast", 3, 1, strict), ("pbcast", 5, 1, 0.96), ("pbcast", 3, 4, lenient),
        ("pbcast", 5, 4, 0.96), ("lpbcast", 3, 0, 0.95), ("lpbcast", 5, 0, 0.98),
    ):  # fmt: skip
        rows.append({"part": "load", "protocol": protocol, "fanout": fanout, "limit": limit,
                     "view": 15, "reliability": reliability})  # fmt: skip
    for kind, delivery in (("age", 0.99), ("random", 0.7)):
        rows.append({"part": "purging", "purging": kind, "rate": 30.0, "delivery": delivery,
                     "stable": delivery})  # fmt: skip
    return judged(PbcastComparison(), rows)["L7"]


def test_l7_holds_if_partial_views_are_as_fast() -> None:
    claim = compared((0.2, 0.48, 0.88, 0.994, 1.0))
    assert refused(claim) == []
    assert "0.480 and 0.500 in round 3" in claim.ours


def test_l7_sees_partial_views_that_are_slower_although_all_get_there() -> None:
    claim = compared((0.1, 0.2, 0.5, 0.9, 0.995))
    assert refused(claim) == ["and as many in rounds 3 to 5: no", "and 99% as fast: no"]
    assert "needs 5.95 and 4.95 rounds" in claim.ours
    assert "1.000 and 1.000 in round 12" in claim.ours


def test_l7_is_judged_by_part() -> None:
    alike = (0.2, 0.5, 0.9, 0.995, 1.0)
    [part] = refused(compared(alike, lenient=0.96))
    assert part == "lpbcast is more reliable in the same setting: no"
    assert len(refused(compared(alike, strict=0.96))) == 2


# -- Memory ----------------------------------------------------------------------------------------


def remembered(
    *, size: tuple[int, int] = (90_000, 80_000), most: tuple[int, int] = (280, 290),
    sources: int = 500,
) -> Claim:  # fmt: skip
    rows = [
        {"nodes": nodes, "publishers": nodes // 20, "bytes_per_peer": size[i],
         "entries_per_peer": 200, "most_entries": most[i], "sources_per_peer": nodes // 20,
         "most_sources": sources}
        for i, nodes in enumerate((100, 10_000))
    ]  # fmt: skip
    return judged(GossipMemory(), rows[::-1])["MEMORY"]


def test_memory_does_not_depend_on_the_number_of_peers() -> None:
    claim = remembered()
    assert refused(claim) == []
    assert "10000 peers, 500 of which publish: 80 kB" in claim.ours
    assert "max_sources 1024" in claim.detail
    assert len(refused(remembered(size=(80_000, 101_000)))) == 1
    assert len(refused(remembered(most=(200, 260)))) == 1
    assert len(refused(remembered(sources=1025))) == 1


def test_as_many_events_come_from_more_publishers_the_more_peers_there_are() -> None:
    for scale in Scale:
        points = GossipMemory().points(scale)
        assert len({point["events"] for point in points}) == 1
        shares = {int(p["publishers"] or 0) / int(p["nodes"] or 1) for p in points}
        assert len(shares) == 1
        for point in points:
            assert 0 < int(point["publishers"] or 0) <= int(point["events"] or 0)
