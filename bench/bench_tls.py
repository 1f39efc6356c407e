"""What encryption costs: the same load with TLS and without, in the same run.

* `relay`: two drivers, one connection, as in `bench relay`: frames of 1,000 events of 100 bytes;
* `geo`: three regions with their proxies, drivers and agents, as in `bench geo`, all connections
  mutually authenticated, rights checked for every publication.

TLS 1.3, AES-256-GCM unless OpenSSL prefers another, P-256 certificates. The bars are low: a machine
whose processor does not encrypt in hardware, or whose two cores carry nine processes, pays more.
"""

import tempfile
from pathlib import Path

from bench.bench_relay import CERTIFICATES
from bench.bench_relay import measure as measure_relay
from bench.harness import Bar, Rates, Result, interleave
from epicast.experiments.geo_load import LATEST_PER_KEY, REGIONS, measure
from epicast.geo.certificate_authority import Authority
from epicast.pipeline.gateway import changed_environment

GEOPLEX = "load"


def prepare(folder: Path) -> str:
    """Certificates for everybody; the text of the table `[security]`."""
    authority = Authority(folder / "ca.pem")
    authority.create(GEOPLEX)
    for region in REGIONS:
        authority.issue("region", GEOPLEX, region, hosts=["127.0.0.1"])
    authority.issue("agent", GEOPLEX, "node", hosts=["127.0.0.1"])
    return f"""
[security]
ca = "{folder}/ca.pem"
certificate = "{folder}/{{region}}.pem"
key = "{folder}/{{region}}.key"
[security.identities.node]
certificate = "node"
[[security.rights]]
identities = ["*"]
streams = ["*"]
allow = ["publish", "subscribe"]
"""


def run(quick: bool) -> Result:
    total = 100_000_000 if quick else 1_000_000_000
    seconds, rounds = (1.0, 1) if quick else (4.0, 3)
    with tempfile.TemporaryDirectory(prefix="epicast-tls-") as name:
        folder = Path(name)
        table = prepare(folder)

        def relay_encrypted() -> float:
            with changed_environment({CERTIFICATES: name}):
                return measure_relay("drive_receiver", "drive_sender", total)

        relay = interleave(
            {
                "plain": lambda: measure_relay("drive_receiver", "drive_sender", total),
                "encrypted": relay_encrypted,
            },
            rounds=rounds,
        )
        proof = {
            "EPICAST_CA": f"{name}/ca.pem",
            "EPICAST_CERTIFICATE": f"{name}/node.pem",
            "EPICAST_KEY": f"{name}/node.key",
        }
        plain, encrypted = [], []
        for _ in range(rounds):
            plain.append(measure(3, LATEST_PER_KEY, seconds).events_per_s)
            with changed_environment(proof):
                secured = measure(3, LATEST_PER_KEY, seconds, security=table)
            encrypted.append(secured.events_per_s)
    geo = {"plain": Rates(tuple(plain)), "encrypted": Rates(tuple(encrypted))}
    return Result(
        "tls",
        {
            "relay_plain_mb_per_s": relay["plain"].median / 1e6,
            "relay_encrypted_mb_per_s": relay["encrypted"].median / 1e6,
            "geo_plain_events_per_s": round(geo["plain"].median),
            "geo_encrypted_events_per_s": round(geo["encrypted"].median),
        },
        [
            Bar("relay_vs_plain", 0.15, "at least", relay["encrypted"].over(relay["plain"]), "x"),
            Bar("geo_vs_plain", 0.4, "at least", geo["encrypted"].over(geo["plain"]), "x"),
        ],
    )
