"""Chain replication of proxies: several replicas do one proxy's work (section 3.3 of the paper).

The head numbers publications and follows other regions. Every replica stores what its predecessor
has stored. What the tail has stored may be shown: it is with all of them. So a replica always has
what its successor has, and whoever is left when others fail has everything that was ever shown.

* `configuration`: who is in the chain, under an epoch; one entry in the coordination service.
* `keeper`: changes it, by compare-and-set, when a neighbour is gone or a newcomer has caught up.
* `lineage`: whether what a newcomer has stored is what the chain has.
* `links`: sending events down the chain, and word of what is stored back.
"""
