"""The campaign: random geoplexes under random trouble, judged by oracles that know nothing of them.

* `drawing`: a seed becomes a `Plan`; `faults` has everything that can go wrong.
* `world`: the plan in the simulator, with the log itself on simulated disks.
* `oracles`: what must hold, from what was published, stored, delivered and acknowledged.
* `run`: trouble, then healing; `running`: many seeds; `ledger`: what has been done so far.
* `planted`: bugs put into a copy of the sources, to see that the oracles would notice.
"""

from epicast.sim.campaign.drawing import draw_plan
from epicast.sim.campaign.run import CampaignRun, Verdict
from epicast.sim.campaign.running import SeedResult, kind_of, run_seed, run_seeds

__all__ = [
    "CampaignRun", "SeedResult", "Verdict", "draw_plan", "kind_of", "run_seed", "run_seeds",
]  # fmt: skip
