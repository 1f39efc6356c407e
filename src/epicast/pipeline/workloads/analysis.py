"""Everything that is found out about a workload, and the page that shows it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from epicast.experiments.files import replace_text
from epicast.pipeline.workloads.ages import ages_of_updates
from epicast.pipeline.workloads.curve import storage_curve
from epicast.pipeline.workloads.errors import WorkloadError
from epicast.pipeline.workloads.files import chunk_path, read_facts
from epicast.pipeline.workloads.manifest import FILE, Workload, load_workload
from epicast.pipeline.workloads.verdicts import Analysis, Verdicts, judge
from epicast.reporting.page import code, figure, page, paragraph, section, table, verdict
from epicast.reporting.plotting import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import SparkSession

REPORT = "report.html"


def analyse(
    spark: SparkSession, directories: Sequence[Path], advance: Callable[[], object] = lambda: None
) -> tuple[list[Analysis], Verdicts]:
    """`advance` is called for each workload that is done."""
    workloads = [whole_workload(directory) for directory in directories]
    analyses = []
    for directory, workload in zip(directories, workloads, strict=True):
        curve = storage_curve(spark, workload, directory)
        ages = ages_of_updates(spark, workload, directory)
        analyses.append(Analysis(str(directory), workload, curve, ages))
        advance()
    return analyses, judge(analyses)


def whole_workload(directory: Path) -> Workload:
    """`WorkloadError` that names the file if one is missing, cut or another one."""
    workload = load_workload(directory)
    for number, facts in enumerate(workload.chunks):
        path = chunk_path(directory, number)
        if read_facts(path) != facts:
            raise WorkloadError(f"{path} is not the file that {directory / FILE} tells of")
    return workload


def to_json(analyses: Sequence[Analysis], verdicts: Verdicts) -> dict[str, Any]:
    return {
        "workloads": [
            {
                "directory": one.directory,
                "digest": one.workload.digest,
                "spec": msgspec.to_builtins(one.workload.spec),
                "rows": one.workload.rows,
                "curve": [
                    {"generated": p.generated, "stored": p.stored, "saving": p.saving}
                    for p in one.curve
                ],
                "ages": [
                    {"low_s": b.low, "high_s": b.high, "updates": b.updates} for b in one.ages
                ],
            }
            for one in analyses
        ],
        "claims": [msgspec.to_builtins(claim) for claim in verdicts.claims],
        "not_judged": verdicts.missing,
    }


def write_report(path: Path, analyses: Sequence[Analysis], verdicts: Verdicts) -> None:
    command = shlex.join(["epicast", "workload", "analyse", *(one.directory for one in analyses)])
    ages = [one for one in analyses if one.ages]
    parts = [
        section("Claims", _claims(verdicts), *(paragraph(text + ".") for text in verdicts.missing)),
        section(
            "What is stored",
            figure(_curves(analyses), "Events stored against events generated."),
            *(_curve_table(one) for one in analyses),
        ),
        section(
            "Ages",
            *([figure(_age_curves(ages), "Updates by the age of their key.")] if ages else []),
        ),
        section("Workloads", _workloads(analyses)),
        section("How this was made", paragraph(code(command))),
    ]
    replace_text(path, page("Workloads", parts))


def _claims(verdicts: Verdicts) -> str:
    return table(
        ["claim", "paper", "ours", "verdict", "detail"],
        [
            [
                claim.id,
                claim.paper,
                claim.ours,
                verdict(claim.holds, "holds" if claim.holds else "does not hold"),
                claim.detail,
            ]
            for claim in verdicts.claims
        ],
        folds=True,
    ) if verdicts.claims else ""  # fmt: skip


def _curve_table(one: Analysis) -> str:
    rows = [[f"{p.generated:,}", f"{p.stored:,}", f"{p.saving:.2%}"] for p in one.curve]
    return paragraph(one.workload.title) + table(["generated", "stored", "saved"], rows)


def _workloads(analyses: Sequence[Analysis]) -> str:
    heads = ["directory", "what", "events", "seconds", "inserts", "deletes", "digest"]
    return table(
        heads,
        [
            [
                one.directory,
                one.workload.title,
                one.workload.rows,
                one.workload.seconds,
                one.workload.inserts,
                one.workload.deletes,
                code(one.workload.digest),
            ]
            for one in analyses
        ],
        folds=True,
    )


def _curves(analyses: Sequence[Analysis]) -> Figure:
    drawing, axes = new_figure("events generated", "events stored")
    for one in analyses:
        axes.plot(
            [p.generated for p in one.curve],
            [p.stored for p in one.curve],
            marker=".",
            label=one.workload.title,
        )
    ends = sorted({p.generated for one in analyses for p in one.curve})
    axes.plot(ends, ends, color="0.6", linewidth=0.8, label="without collection")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.legend(fontsize=7)
    return drawing


def _age_curves(analyses: Sequence[Analysis]) -> Figure:
    drawing, axes = new_figure("seconds since the key was inserted", "updates per second of age")
    for one in analyses:
        shown = [age for age in one.ages if age.updates]
        axes.plot(
            [age.age for age in shown],
            [age.per_second for age in shown],
            label=one.workload.title,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.legend(fontsize=7)
    return drawing
