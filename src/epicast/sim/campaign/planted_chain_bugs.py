"""Single lines gone wrong where replicas form a chain.

Here, too, some that one would think of are made good elsewhere: of what is said in the name of
another configuration, answers and progress are checked twice, so that `forget-fencing` lets in
introductions only; and a replica that numbers events without being the head any more finds nobody
who stores them.
"""

from __future__ import annotations

from epicast.sim.campaign.planted import PlantedBug

_SPRINKLER = "protocols/sprinkler"
_CHAIN = f"{_SPRINKLER}/chain"

CHAIN_BUGS: tuple[PlantedBug, ...] = (
    PlantedBug(
        name="ack-before-tail",
        file=f"{_CHAIN}/links.py",
        old="return below.shown.get(state.id, 0) if below is not None else state.end",
        new="return state.stored",
        description="a replica shows and acknowledges what it has stored itself",
        within=20,
    ),
    PlantedBug(
        name="forget-compare",
        file="protocols/coordination/node.py",
        old="if message.revision != (known.revision if known is not None else 0):",
        new="if message.revision < 0:",
        description="a proposal that changes a configuration which is over succeeds",
        within=1000,
    ),
    PlantedBug(
        name="forget-fencing",
        file=f"{_SPRINKLER}/replica.py",
        old="if epoch != self._keeper.chain.epoch:",
        new="if epoch < 0:",
        description="a replica heeds what is said in the name of another configuration",
        within=600,
    ),
    PlantedBug(
        name="old-member",
        file=f"{_CHAIN}/keeper.py",
        old="if place is None or self.chain.members[place].incarnation != self.incarnation:",
        new="if place is None:",
        description="a replica that was started again takes itself for the member it was",
        within=600,
    ),
    PlantedBug(
        name="newcomer-too-early",
        file=f"{_CHAIN}/links.py",
        old="state.end <= below.stored.get(state.id, 0) <= state.stored",
        new="0 <= below.stored.get(state.id, 0) <= state.stored",
        description="a newcomer is proposed before it has all that was shown",
        within=150,
    ),
    PlantedBug(
        name="hand-over-blindly",
        file=f"{_CHAIN}/links.py",
        old="return below.stored.get(state.id, 0)",
        new="return state.stored",
        description="the tail shows what the newcomer it has proposed does not have",
        within=50,
    ),
    PlantedBug(
        name="no-retransmission",
        file=f"{_CHAIN}/links.py",
        old="self._numbers[place.stream], place.stream, place.epoch, place.end,",
        new="self._numbers[place.stream], place.stream, place.epoch, "
        "self._states[place.stream].stored,",
        description="a new successor is not sent what it missed",
        within=20,
    ),
    PlantedBug(
        name="forget-publishers-below",
        file=f"{_SPRINKLER}/replica.py",
        old="self._publications.observe(batch)",
        new="pass",
        description="a replica that becomes the head does not know what the one before it took",
        within=20,
    ),
    PlantedBug(
        name="reuse-chain-epoch",
        file=f"{_CHAIN}/configuration.py",
        old="return ChainConfig(self.epoch + 1, members, self.tenures)",
        new="return ChainConfig(self.epoch, members, self.tenures)",
        description="the chain changes under the same epoch",
        within=50,
    ),
    PlantedBug(
        name="ignore-lineage",
        file=f"{_CHAIN}/links.py",
        old="same = place.end <= common_end(lineage, state.stored, place.lineage, place.end)",
        new="same = place.end <= state.stored",
        description="a newcomer keeps what another head has numbered",
        within=1000,
    ),
    PlantedBug(
        name="no-lineage",
        file=f"{_SPRINKLER}/replica.py",
        old="self._links.lineages[state.id] = begun(before, epoch, state.taken + 1)",
        new="self._links.lineages[state.id] = before",
        description="a head does not note which numbers are its own",
        within=1000,
    ),
    PlantedBug(
        name="show-outside",
        file=f"{_CHAIN}/links.py",
        old="return state.end",
        new="return state.stored",
        description="a replica shows what it has although it is not in the chain",
        within=100,
    ),
    PlantedBug(
        name="collect-unshown",
        file=f"{_SPRINKLER}/replica.py",
        old="fx.release(state.id, state.end if self._links.is_member else state.stored)",
        new="fx.release(state.id, state.stored)",
        description="events that may still be lost with their head collect others",
        within=50,
    ),
    PlantedBug(
        name="no-doubt",
        file=f"{_SPRINKLER}/replica.py",
        old="if state.epoch == 0 or state.id in doubtful:",
        new="if state.epoch == 0:",
        description="the last replica goes on in the same epoch although it may have lost events",
        within=300,
    ),
    PlantedBug(
        name="damaged-wins",
        file=f"{_CHAIN}/resuming.py",
        old="return min(told, key=lambda replica: self._lacks(replica, told, synced), default=0)",
        new="return told[0] if told else 0",
        description="of replicas that were all started again the first goes on, whatever it lost",
        within=100,
    ),
    PlantedBug(
        name="new-owner-forgets",
        file=f"{_SPRINKLER}/moving/tenant.py",
        old="self._publications.own(state, self._known.numbers(state.id))",
        new="self._publications.own(state, {})",
        description="who is given a stream does not know what publishers had sent before",
        within=400,
    ),
)
