"""docs/geoplex.md lists every key, with its unit and its default; the example is valid."""

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, inspect

from epicast.deployment import SimulateSection, StreamWorkload, load_geoplex
from epicast.deployment.document import GeoplexDocument
from epicast.deployment.expectations import alternatives, bare, quantity_of
from epicast.deployment.sections import (
    CoordinationSection,
    EvidenceSection,
    LinkSection,
    NodeBudget,
    RegionSection,
    StreamSection,
    TopicSection,
)
from epicast.deployment.security_section import IdentitySection, RightSection, SecuritySection
from epicast.protocols.sprinkler import AgentConfig, ProxyConfig

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "geoplex.md").read_text("utf-8")
SECTIONS = {
    "The file": GeoplexDocument,
    "`[regions.NAME]`": RegionSection,
    "`[[links]]`": LinkSection,
    "`[streams.NAME]`": StreamSection,
    "`[topics.NAME]`": TopicSection,
    "`[coordination]`": CoordinationSection,
    "`[evidence]`": EvidenceSection,
    "`[security]`": SecuritySection,
    "`[security.identities.NAME]`": IdentitySection,
    "`[[security.rights]]`": RightSection,
    "`[budget.proxy]` and `[budget.agent]`": NodeBudget,
    "`[proxies]`": ProxyConfig,
    "`[agents]`": AgentConfig,
    "`[simulate]`": SimulateSection,
    "`[[simulate.workload]]`": StreamWorkload,
}
_ROW = re.compile(r"\| `(?P<key>\w+)` \| (?P<unit>[^|]+) \| (?P<default>[^|]+) \| (?P<text>.+) \|")
_UNITS = {
    inspect.StrType: "text",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.BoolType: "true or false",
    inspect.LiteralType: "choice",
    inspect.DictType: "table",
    inspect.StructType: "table",
    inspect.ListType: "array",
}


def documented(heading: str) -> dict[str, tuple[str, str]]:
    body = DOCUMENT.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in body.splitlines() if line.startswith("| `")]
    matches = [_ROW.fullmatch(row) for row in rows]
    assert None not in matches, rows[matches.index(None)]
    return {row["key"]: (row["unit"], row["default"]) for row in matches if row}


def unit(node: inspect.Type) -> str:
    quantity = quantity_of(node)
    if quantity is not None:
        return quantity.noun
    plain = bare(node)
    if isinstance(plain, inspect.UnionType):
        return " or ".join(unit(kind) for kind in alternatives(plain))
    return _UNITS[type(plain)]


def default(field: inspect.Field) -> str:
    if field.required:
        return "required"
    value: Any = field.default
    if value is inspect.NODEFAULT or value in (None, "", [], {}):
        return "none"
    quantity = quantity_of(field.type)
    if quantity is not None:
        return quantity.format(value)
    return str(value).lower()


@pytest.mark.parametrize(("heading", "section"), SECTIONS.items(), ids=[*SECTIONS])
def test_documented(heading: str, section: type[Struct]) -> None:
    info = inspect.type_info(section)
    assert isinstance(info, inspect.StructType)
    expected = {field.encode_name: (unit(field.type), default(field)) for field in info.fields}
    assert documented(heading) == expected


def test_every_table_of_the_document_is_compared() -> None:
    tables = {part.partition("\n")[0] for part in DOCUMENT.split("\n## ")[1:] if "|---" in part}
    assert tables == set(SECTIONS)


def test_the_example_is_valid_and_shows_every_kind_of_table() -> None:
    geoplex = load_geoplex(ROOT / "examples" / "geoplex.toml")
    assert len(geoplex.regions) == 3
    assert {stream.ack for stream in geoplex.streams.values()} == {"memory", "interval", "disk"}
    assert geoplex.peer("us", source="ap").host == "tunnel.ap.shop.example"
    assert geoplex.budget.proxy.limits() and geoplex.budget.agent.limits()
    simulation = geoplex.simulation(SimulateSection)
    assert [each.stream for each in simulation.workload] == ["invalidations", "audit"]
