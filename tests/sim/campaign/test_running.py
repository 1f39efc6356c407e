"""Seeds in processes: each is counted or still to be run, whatever becomes of its process."""

import os
import signal
import time
from multiprocessing import active_children

import pytest

from epicast.sim.campaign.running import SeedResult, Worker, run_seeds

STUCK, DIES, RAISES, INTERRUPTED, SLOW = 101, 102, 103, 105, 107
PATIENCE_S = 60.0


def pretend(seed: int) -> SeedResult:
    return SeedResult(seed, "streams", failure="odd" if seed % 2 else "")


def pretend_badly(seed: int) -> SeedResult:
    match seed:
        case 101:
            time.sleep(3600)
        case 102:
            os._exit(3)
        case 103:
            raise ZeroDivisionError("no plan")
        case 105:
            os.kill(os.getpid(), signal.SIGINT)
        case 107:
            time.sleep(0.5)
    return pretend(seed)


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_from_as_many_processes_as_wanted(jobs: int):
    results = sorted(run_seeds(range(3, 20), jobs, pretend), key=lambda result: result.seed)
    assert results == [pretend(seed) for seed in range(3, 20)]
    assert not active_children()


def test_whoever_has_seen_enough_stops():
    results = run_seeds([0, 1, 2, STUCK], 1, pretend_badly)
    assert [next(results).seed for _ in range(3)] == [0, 1, 2]
    results.close()
    assert not active_children()


def test_what_runs_when_nothing_more_is_begun_is_waited_for():
    results = run_seeds([0, SLOW, 2, 3], 2, pretend_badly, goes_on=lambda: False)
    assert sorted(results, key=lambda result: result.seed) == [pretend(0), pretend(SLOW)]


def test_a_seed_that_never_ends_has_failed():
    (result,) = run_seeds([STUCK], 1, pretend_badly, limit_s=0.2)
    assert result.failure == (
        "not at its end after 0.2 s of real time\n"
        f"repeat with: epicast swarm --kind chains --seed {STUCK}"
    )
    assert not active_children()


def test_the_next_seed_runs_although_one_never_ended():
    worker = Worker(pretend_badly, limit_s=0.0)
    worker.begin(STUCK)
    stuck = worker.result()
    assert stuck is not None and "not at its end" in stuck.failure
    worker.begin(4)
    assert worker.pipe.poll(PATIENCE_S)
    assert worker.result() == pretend(4)
    worker.end()


def test_a_seed_whose_process_dies_has_failed_and_others_go_on():
    died, raised, after = run_seeds([DIES, RAISES, 4], 1, pretend_badly)
    assert died.failure.splitlines() == [
        "its process ended (3)",
        f"repeat with: epicast swarm --kind streams --seed {DIES}",
    ]
    assert raised.failure.startswith("ZeroDivisionError: no plan\nrepeat with: epicast swarm ")
    assert after == pretend(4)


def test_ctrl_c_is_for_the_first_process_alone():
    assert list(run_seeds([INTERRUPTED], 1, pretend_badly)) == [pretend(INTERRUPTED)]
