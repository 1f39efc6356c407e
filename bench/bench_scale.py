"""A hundred thousand nodes in one process: memory, and what a message costs as the system grows."""

import json
import sys
from statistics import median

from bench.harness import Bar, Child, Result, run_child


def run(quick: bool) -> Result:
    small, large = (200, 2000) if quick else (1000, 100_000)
    rounds = 1 if quick else 3
    # Small runs are short: several, between the large ones, against noise.
    ours_small = [_run("hyparview", small)[0] for _ in range(rounds)]
    bare_small = [_run("bare", small)[0] for _ in range(rounds)]
    ours_large, child = _run("hyparview", large)
    bare_large = [_run("bare", large)[0] for _ in range(rounds)]
    ours_small += [_run("hyparview", small)[0] for _ in range(rounds)]
    if ours_large["delivered"] != large:
        raise RuntimeError(f"the event reached {ours_large['delivered']} of {large} nodes")
    ours = ours_large["us_per_message"] / _cost(ours_small)
    bare = _cost(bare_large) / _cost(bare_small)
    figures = {
        "nodes": large,
        "messages": ours_large["messages"],
        "seconds": round(ours_large["seconds"], 1),
        f"epicast_us_per_message_{small}": round(_cost(ours_small), 2),
        f"epicast_us_per_message_{large}": round(ours_large["us_per_message"], 2),
        f"bare_us_per_message_{small}": round(_cost(bare_small), 2),
        f"bare_us_per_message_{large}": round(_cost(bare_large), 2),
        "epicast_growth": round(ours, 2),
        "bare_growth": round(bare, 2),
    }
    bars = [
        Bar("peak_gb", 8, "at most", child.peak_rss_bytes / 1e9, "GB"),
        Bar("growth_vs_bare_loop", 1, "at most", ours / bare, "x"),
    ]
    return Result("scale", figures, bars)


def _run(model: str, nodes: int) -> tuple[dict[str, float], Child]:
    child = run_child(
        [sys.executable, "-m", "bench.overlay_models", model, str(nodes)], timeout_s=1800
    )
    return json.loads(child.stdout), child


def _cost(runs: list[dict[str, float]]) -> float:
    return median(run["us_per_message"] for run in runs)
