"""The audit in one process with everything in memory: numpy and pyarrow, no Spark.

The checks are the same functions; what is missing is whatever lets the real one work on more than
fits in memory, on more than one core, and on more than one machine.
"""

from collections import defaultdict
from pathlib import Path

import numpy as np

from epicast.evidence import Role
from epicast.pipeline.audit import AuditResult, Rules
from epicast.pipeline.audit.case import Case
from epicast.pipeline.audit.cutting import cut, key_ends, linked
from epicast.pipeline.audit.links import KeyEnds
from epicast.pipeline.audit.logs import find_logs
from epicast.pipeline.audit.running import judge_blocks
from epicast.pipeline.audit.summing import summed
from epicast.pipeline.audit.surveys import survey


def audit_in_memory(
    directory: Path, rules: Rules | None = None, accept_truncated: bool = False
) -> AuditResult:
    rules = rules or Rules()
    surveys = [
        survey(folder, rules.clock_tolerance_ns, rules.block_bits)
        for folder in find_logs(directory)
    ]
    case = Case(surveys, rules)
    pieces = [piece for index in range(len(case.parts)) for piece in cut(case, index)]
    if case.keyed:
        found: dict[tuple[int, int], list[KeyEnds]] = defaultdict(list)
        for index, (number, _) in enumerate(case.parts):
            if case.roles[number] == Role.OWNER:
                for stream, epoch, ends in key_ends(case, index):
                    found[stream, epoch].append(ends)
        for (stream, epoch), parts in found.items():
            joined = KeyEnds(*map(np.concatenate, zip(*parts, strict=True)))
            pieces += linked(stream, epoch, joined, rules.block_bits)
    pieces.sort(key=lambda piece: piece[:7])
    verdicts = judge_blocks(pieces, case)
    return summed(str(directory), surveys, case, verdicts, accept_truncated)
