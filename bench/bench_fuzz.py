"""A million damaged frames, handshakes and datagrams: nothing but the protocol's own error."""

from bench.harness import Bar, Result
from tests.unit.wire.mutations import load_corpus, run_mutations
from tests.unit.wire.seeds import CORPUS


def run(quick: bool) -> Result:
    count = 20_000 if quick else 1_000_000
    outcomes, unexpected = run_mutations(load_corpus(CORPUS), count, seed=1)
    for name, data, error in unexpected[:10]:
        print(f"{name}: {error}: {data}")
    figures = {"mutations": count, **{name: outcomes[name] for name in sorted(outcomes)}}
    bars = [Bar("unexpected_exceptions", 0, "at most", len(unexpected))]
    return Result("fuzz", figures, bars)
