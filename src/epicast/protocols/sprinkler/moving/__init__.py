"""Streams that change their owner: handed over by the region that has them, or taken by force.

* `tenure`: who owns a stream, from where on; the higher one counts, whoever it is heard from.
* `ledger`: all tenures a proxy knows, which of them it remembers as its own, and who else knows.
* `handover`: how far the owner is in giving a stream away.
* `publishers`: what was published by whom, of streams owned elsewhere: who takes one has to know.
* `messages`: what proxies, and people's tools, say to each other about all this.
* `tenant`, `proxy`: a proxy that does it. In a chain, what it decides is part of the configuration.
* `operator`: who asks for it.
"""
