"""Sprinkler: reliable streams across datacenters (Geng and van Renesse).

* `Proxy`: a region's service. It numbers the events of its own streams, gets all others from
  whichever proxy is far enough (PLP, Figure 1), stores everything, and serves whoever asks.
* `MovableProxy`: the same, and its streams can be moved to other regions, see `moving`.
* `ReplicaProxy`: one of several that do a proxy's work together, see `chain`.
* `Agent`: a peer in a region. It spreads events with its neighbours (RLP, Figure 3), and serves
  the application it is part of.
* `Sidecar`: an agent of its own, for the plain clients of a machine.
* `Client`: attached to a proxy or agent, and nothing else.

Where the paper, read literally, loses events, the modules `sources` and `following` say what is
done instead. Beyond the paper: watermarks with epochs, so that a loss at an owner is noticed;
subscribers are cursors with windows, so that none can slow others; publications are recognised when
sent again; small news rides inside NOTIFY; heartbeats bound how long anybody can be deaf.
"""

from epicast.protocols.sprinkler.agent import Agent
from epicast.protocols.sprinkler.alarms import Alarm, AlarmKind
from epicast.protocols.sprinkler.chain.configuration import ChainPlan
from epicast.protocols.sprinkler.client import Client
from epicast.protocols.sprinkler.config import AgentConfig, ClientConfig, ProxyConfig
from epicast.protocols.sprinkler.infos import stream_info
from epicast.protocols.sprinkler.messages import Counter, RefusalCode, StreamInfo
from epicast.protocols.sprinkler.moving.proxy import MovableProxy
from epicast.protocols.sprinkler.notices import Attached, Detached, Heads, NoSuchStream, Restarted
from epicast.protocols.sprinkler.plans import ProxyPlan, chain_plan, proxy_plan
from epicast.protocols.sprinkler.proxy import Proxy
from epicast.protocols.sprinkler.recent import EventBuffer, RecentBatches
from epicast.protocols.sprinkler.replica import ReplicaProxy
from epicast.protocols.sprinkler.sidecar import Sidecar

__all__ = [
    "Agent", "AgentConfig", "Alarm", "AlarmKind", "Attached", "ChainPlan", "Client", "ClientConfig",
    "Counter", "Detached", "EventBuffer", "Heads", "MovableProxy", "NoSuchStream", "Proxy",
    "ProxyConfig", "ProxyPlan", "RecentBatches", "RefusalCode", "ReplicaProxy", "Restarted",
    "Sidecar", "StreamInfo", "chain_plan", "proxy_plan", "stream_info",
]  # fmt: skip
