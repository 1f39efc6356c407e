"""The nemesis: a geoplex of real processes under load, mistreated on purpose, and judged.

Regions are chains of replicas, each a process with files of its own; what goes from one region to
another goes through relays. Publishers and subscribers are processes, too, and write down what they
sent, were told and got. A schedule drawn from a seed (`schedule.py`) says what happens to whom:
processes are killed and stopped, disks fill, rot and vanish, links fail, also one way. In the end
everything is mended, everybody gets the time to get everything, and `epicast_checker`, which
imports nothing of this, reads what was written down.

What may happen at a time is bounded by what a chain promises to survive: of the replicas of a
region one is always left alone, and nothing begins in a region before its chain is whole again.
All of them may be killed at once if their disks stay: everything here is acknowledged once it is on
the disks of all members. See `docs/nemesis.md`.
"""
