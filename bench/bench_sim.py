"""How fast the simulator runs a real protocol, beside SimPy and a loop without any framework."""

from functools import partial

from bench import gossip_models as models
from bench.harness import Bar, Result, interleave


def run(quick: bool) -> Result:
    nodes, events = (200, 20) if quick else (1000, 60)
    candidates = {
        "epicast": partial(models.epicast_gossip, nodes, events),
        "simpy_stores": partial(models.simpy_stores, nodes, events // 4),
        "simpy_callbacks": partial(models.simpy_callbacks, nodes, events),
        "simpy_callbacks_lean": partial(models.simpy_callbacks_lean, nodes, events),
        "bare_loop": partial(models.bare_loop, nodes, events),
    }
    rates = interleave(candidates, rounds=1 if quick else 5, warmup=0 if quick else 1)
    figures = {f"{name}_messages_per_s": round(rate.median) for name, rate in rates.items()}
    ours = rates["epicast"]
    figures["vs_simpy_callbacks_lean"] = round(ours.over(rates["simpy_callbacks_lean"]), 3)
    bars = [
        Bar("vs_simpy_stores", 5, "at least", ours.over(rates["simpy_stores"]), "x"),
        Bar("vs_simpy_callbacks", 1.5, "at least", ours.over(rates["simpy_callbacks"]), "x"),
        Bar("vs_bare_loop", 0.3, "at least", ours.over(rates["bare_loop"]), "x"),
    ]
    return Result("sim", figures, bars)
