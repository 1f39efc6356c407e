"""The campaign: random geoplexes under random trouble, judged by oracles that know nothing of them.

* `drawing`, `drawing_faults`: a seed becomes a `Plan`; `faults` has what can go wrong,
  `damage` what can with disks, `network` what can on the way.
* `world`: the plan in the simulator, with the log itself on simulated disks; `upkeep`: what a
  service does besides; `chains`: who is a member, and whose disk can be trusted.
* `oracles`: what must hold, from what was published, stored, delivered and acknowledged (`watched`
  has whom they look at); `truth` and `chained`: what is true of a stream.
* `run`: trouble, then healing; `running`: many seeds; `ledger`: what has been done so far.
* `planted`: bugs put into a copy of the sources, to see that the oracles would notice.
"""

from epicast.sim.campaign.drawing import draw_plan
from epicast.sim.campaign.run import CampaignRun, Verdict
from epicast.sim.campaign.running import SeedResult, kind_of, run_seed, run_seeds

__all__ = [
    "CampaignRun", "SeedResult", "Verdict", "draw_plan", "kind_of", "run_seed", "run_seeds",
]  # fmt: skip
