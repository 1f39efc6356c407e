"""Verdicts on blocks, added up to what an audit says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from epicast.evidence import Role
from epicast.pipeline.audit.case import Case
from epicast.pipeline.audit.packing import unpack
from epicast.pipeline.audit.publications import PARTIAL, Partial, judge_crossing
from epicast.pipeline.audit.results import AuditResult, Finding, Line, TruncatedLog, line
from epicast.pipeline.audit.running import About, Verdict
from epicast.pipeline.audit.surveys import Survey
from epicast.pipeline.audit.tallies import Tally

_FINDINGS_PER_KIND = 20


class _Sums:
    """By whatever an audit tells apart."""

    def __init__(self) -> None:
        self.total = Tally()
        self.streams: dict[str, Tally] = defaultdict(Tally)
        self.regions: dict[str, Tally] = defaultdict(Tally)
        self.subscribers: dict[tuple[str, str, str], Tally] = defaultdict(Tally)
        self.publishers: dict[tuple[str, str, str], Tally] = defaultdict(Tally)
        self.findings: list[Finding] = []

    def add(
        self, role: Role, name: str, region: str, stream: str, epoch: int, found: Tally
    ) -> None:
        self.total.add(found)
        if stream:
            self.streams[stream].add(found)
        if role == Role.SUBSCRIBER:
            self.regions[region].add(found)
            self.subscribers[name, stream, region].add(found)
        elif role == Role.PUBLISHER:
            self.publishers[name, stream, region].add(found)
        for example in found.examples:
            same = sum(finding.what == example.what for finding in self.findings)
            if same < _FINDINGS_PER_KIND:
                self.findings.append(
                    Finding(example.what, name, stream, epoch, example.first, example.last)
                )


def summed(
    directory: str, surveys: Sequence[Survey], case: Case, verdicts: Iterable[Verdict],
    accept_truncated: bool,
) -> AuditResult:  # fmt: skip
    sums = _Sums()
    names = {stream: facts.name for stream, facts in case.streams.items()}
    for each in surveys:
        _add_log(sums, each)
    for index, tally in _by_segment(case, verdicts := list(verdicts)).items():
        segment, survey = case.segments[index], surveys[case.segment_log[index]]
        stream = names.get(segment.stream, str(segment.stream))
        name = f"{survey.name}/{segment.subscription}"
        sums.add(Role.SUBSCRIBER, name, survey.region, stream, segment.epoch, tally)
    for about, who, number, tally in _others(case, verdicts):
        name, region = (surveys[who].name, surveys[who].region) if who >= 0 else ("", "")
        role = Role.PUBLISHER if about == About.PUBLISHER else Role.OWNER
        sums.add(role, name, region, names.get(number, str(number)), 0, tally)
    return AuditResult(
        directory=directory,
        logs=len(surveys),
        rows=sum(each.rows for each in surveys),
        events=case.events,
        totals=line("all", sums.total),
        streams=[line(name, tally) for name, tally in sorted(sums.streams.items())],
        regions=[line(name, tally) for name, tally in sorted(sums.regions.items())],
        subscribers=_lines(sums.subscribers),
        publishers=_lines(sums.publishers),
        truncated=[
            TruncatedLog(each.folder, each.truncated, number in case.covered)
            for number, each in enumerate(surveys)
            if each.truncated
        ],
        ownerless=sorted(names.get(stream, str(stream)) for stream in case.ownerless),
        accepts_truncated=accept_truncated,
        findings=sums.findings,
        first_time_ns=case.first_time,
        slot_ns=case.slot_ns,
    )


def _add_log(sums: _Sums, each: Survey) -> None:
    """What the log says by itself: whether its clock went back."""
    if each.clock_rows:
        tally = Tally()
        tally.counts.clock = each.clock_rows
        sums.add(each.role, each.name, each.region, "", 0, tally)


def _by_segment(case: Case, verdicts: Sequence[Verdict]) -> dict[int, Tally]:
    found = {index: Tally() for index in range(len(case.segments))}
    for verdict in verdicts:
        if verdict.about == About.SUBSCRIPTION:
            found[verdict.who].add(Tally.decode(verdict.payload))
    return found


def _others(case: Case, verdicts: Sequence[Verdict]) -> Iterable[tuple[int, int, int, Tally]]:
    crossing: dict[tuple[int, int], list[Partial]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.about == About.CROSSING:
            partial = Partial(*unpack(verdict.payload, *PARTIAL))
            crossing[verdict.who, verdict.stream].append(partial)
        elif verdict.about != About.SUBSCRIPTION:
            yield verdict.about, verdict.who, verdict.stream, Tally.decode(verdict.payload)
    for (who, stream), partials in crossing.items():
        tally = judge_crossing(partials, case.publications_judged_until(stream))
        yield About.PUBLISHER, who, stream, tally


def _lines(tallies: dict[tuple[str, str, str], Tally]) -> list[Line]:
    return [
        line(name, tally, stream=stream, region=region)
        for (name, stream, region), tally in sorted(tallies.items())
    ]
