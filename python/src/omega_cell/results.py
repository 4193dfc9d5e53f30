"""Results of `omega run` and `omega sim` as Arrow tables.

    from omega_cell import results

    run = results.run("--synthetic", "500", "--hours", "2")
    run["series"].to_pandas().plot(x="workload_s", y="pending")
    rows = results.sweep("sweep.toml", "out")        # polars.from_arrow(rows) works as well

The programs are searched for in `PATH`, unless `program` names one.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

TABLES = ("schedulers", "tenants", "resources", "unplaced", "series", "heat")
"""Tables of a report that have a row for each scheduler, tenant, kind, reason, instant and machine."""


class ProgramError(Exception):
    """A program that failed; the text is what it printed to standard error."""


class Run(dict[str, pa.Table]):
    """The tables of a run by name, and `summary`: the figures of the whole run."""

    summary: dict[str, Any]


def read_run(file: str | os.PathLike[str]) -> Run:
    """Reads the file that `omega run --json FILE` wrote.

    `used` of the tables `series` and `heat` has a column for each kind of the report, such as `used_cpu`.
    """
    report = json.loads(Path(file).read_text())
    run = Run()
    kinds = [kind["name"] for kind in report["resources"]]
    for name in TABLES:
        rows = report.get(name) or []
        run[name] = pa.Table.from_pylist([_flat(row, kinds) for row in rows])
    run.summary = {name: value for name, value in report.items() if not isinstance(value, (list, dict))}
    return run


def _flat(row: dict[str, Any], kinds: list[str]) -> dict[str, Any]:
    for name, number in (("conflict_reasons", "count"), ("reasons", "machines")):
        reasons = row.get(name)
        if isinstance(reasons, list):
            # Arrow has no type for pairs of a text and a number.
            row = {**row, name: [{"reason": reason, number: count} for reason, count in reasons]}
    used = row.get("used")
    if not isinstance(used, list):
        return row
    flat = {name: value for name, value in row.items() if name != "used"}
    flat.update({f"used_{kind}": share for kind, share in zip(kinds, used)})
    return flat


def run(*arguments: str, program: str = "omega") -> Run:
    """Runs `omega run` with these arguments, and reads its report."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.json"
        _execute([program, "run", *arguments, "--json", str(file)])
        return read_run(file)


def read_sweep(folder: str | os.PathLike[str]) -> pa.Table:
    """Reads the results of a sweep: a row for each point and scheduler."""
    return pq.read_table(Path(folder) / "results.parquet")


def sweep(file: str | os.PathLike[str], out: str | os.PathLike[str], *, program: str = "omega-sim") -> pa.Table:
    """Runs `omega-sim sweep FILE --out FOLDER`, and reads its results. A sweep that was interrupted is continued."""
    _execute([program, "sweep", str(file), "--out", str(out)])
    return read_sweep(out)


def _execute(command: list[str]) -> None:
    try:
        ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError:
        raise ProgramError(f"{command[0]} is not in PATH: install it, or give its path as `program`") from None
    if ended.returncode != 0:
        raise ProgramError(f"{command[0]} ended with status {ended.returncode}: {ended.stderr.strip()}")
