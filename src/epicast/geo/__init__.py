"""Services of a geoplex, wired from protocols, log and runtime.

* `geo.proxy.ProxyService` and `geo.agent.AgentService`: one node each, in the caller's event loop.
* `geo.local.LocalGeoplex`: all proxies of a geoplex as processes of this machine.
* `geo.status.ask_status`: how a running proxy is.

Nothing is imported here, so that a command loads only what it needs.
"""
