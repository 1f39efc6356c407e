"""What a sweep leaves in its directory: claims, results, plots, report."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec

from epicast.core.errors import ConfigError
from epicast.experiments.files import replace_file, replace_text
from epicast.experiments.model import Claim, Scale
from epicast.experiments.report import render_report
from epicast.experiments.sweep import Sweep
from epicast.experiments.table import write_parquet
from epicast.reporting import render_png

CLAIMS_FILE = "claims.json"
RESULTS_FILE = "results.parquet"
REPORT_FILE = "report.html"


def command_line(
    name: str,
    scale: Scale,
    seed: int,
    directory: Path,
    master: str | None = None,
    inline: bool = False,
) -> str:
    """The command that makes, or resumes, a sweep. Where it runs changes nothing about it, so only
    who resumes one asks for that."""
    words = ["epicast", "experiment", "run", name, "--scale", str(scale), "--seed", str(seed)]
    words += ["--out", str(directory)]
    words += ["--master", master] if master else []
    words += ["--inline"] if inline else []
    return shlex.join(words)


def write_outputs(sweep: Sweep, directory: Path) -> list[Claim]:
    """Write everything and return the claims. Results come first: no verdict can lose them."""
    experiment = sweep.experiment
    metadata = {"experiment": experiment.name, "scale": str(sweep.scale), "seed": str(sweep.seed)}
    write_parquet(directory / RESULTS_FILE, sweep.results.rows, metadata)
    claims = judge(sweep)
    text = json.dumps([msgspec.to_builtins(claim) for claim in claims], indent=2)
    replace_text(directory / CLAIMS_FILE, text + "\n")
    plots = [] if sweep.failures else experiment.plots(sweep.results)
    for plot in plots:
        target = directory / "plots" / f"{plot.name}.png"
        target.parent.mkdir(exist_ok=True)
        with replace_file(target) as partial:
            partial.write_bytes(render_png(plot.figure))
    command = command_line(experiment.name, sweep.scale, sweep.seed, directory)
    replace_text(directory / REPORT_FILE, render_report(sweep, claims, plots, command))
    return claims


def judge(sweep: Sweep) -> list[Claim]:
    """The experiment's verdicts; with runs missing there is none, and no claim holds."""
    experiment = sweep.experiment
    if sweep.failures:
        detail = f"{len(sweep.failures)} of {len(sweep.tasks)} runs failed"
        return [Claim(id, "", "not measured", False, detail) for id in experiment.claim_ids]
    claims = [
        Claim(claim.id, str(claim.paper), str(claim.ours), bool(claim.holds), claim.detail)
        for claim in experiment.claims(sweep.results)
    ]
    judged = {claim.id for claim in claims}
    if judged != set(experiment.claim_ids):
        raise ValueError(
            f"{experiment.name} covers {sorted(experiment.claim_ids)} but judged {sorted(judged)}"
        )
    return claims


def read_claims(directories: Sequence[Path]) -> list[tuple[Path, Claim]]:
    """The claims found in directories that sweeps have written."""
    found = []
    for directory in directories:
        path = directory / CLAIMS_FILE
        try:
            claims = msgspec.json.decode(path.read_bytes(), type=list[Claim])
        except FileNotFoundError:
            raise ConfigError(
                f"there is no {path}; write it with: epicast experiment run NAME --out {directory}"
            ) from None
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{path} is not a list of claims: {error}") from None
        found += [(directory, claim) for claim in claims]
    return found
