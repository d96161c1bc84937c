"""Rows as lists of several pages show them: findings and runs in a few fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ptxguard.errors import ConfigError
from ptxguard.finding import Severity
from ptxguard.memcost import Gpu
from ptxguard.store.rows import UNREVIEWED, Run, RunPrice, StoredFinding
from ptxguard.web.page import NotThereError, View
from ptxguard.web.prices import Price, price_on, worst
from ptxguard.web.table import Table

WORST_FIRST = tuple(level.word for level in reversed(Severity))


@dataclass(frozen=True)
class FindingRow:
    """A finding in a list.

    Attributes:
        fingerprint: names it across runs.
        subject: of its run.
        run: that holds it.
        state: new, unchanged or reopened in that run.
        status: what people decided, or "not reviewed".
        code: of the rule.
        rule: name of the rule.
        severity: error, warning or note.
        confidence: high, medium or low.
        path: of the file.
        line: 1-based.
        function: around it, or None.
        message: one sentence.
        verdict: of the cluster size, or empty.
        destination: of the address, or empty.
        witness: what compiled code said, or empty.
        kernels: how many carry it.
        price: on the chosen card; None: it costs nothing there.
        fix: safe, unsafe or None.
    """

    fingerprint: str
    subject: str
    run: int
    state: str
    status: str
    code: str
    rule: str
    severity: str
    confidence: str
    path: str
    line: int
    function: str | None
    message: str
    verdict: str
    destination: str
    witness: str
    kernels: int
    price: Price | None
    fix: str | None


def finding_row(stored: StoredFinding, gpu: Gpu) -> FindingRow:
    """A row out of a finding of a list (or a whole one)."""
    record = stored.record
    return FindingRow(
        fingerprint=stored.fingerprint,
        subject=stored.subject,
        run=stored.run,
        state=stored.state,
        status=stored.review.status if stored.review is not None else UNREVIEWED,
        code=record["code"],
        rule=record["rule"],
        severity=record["severity"],
        confidence=record["confidence"],
        path=record["path"],
        line=record["line"],
        function=record["function"],
        message=record["message"],
        verdict=record["cluster"].get("verdict") or "",
        destination=record["address"].get("verdict") or "",
        witness=(record["performance"].get("binary") or {}).get("verdict", ""),
        kernels=record["kernel_count"] if "kernel_count" in record else len(record["kernels"]),
        price=price_on(record, gpu),
        fix=record["fix"]["safety"] if record["fix"] else None,
    )


def findings_table(rows: Iterable[FindingRow]) -> Table:
    """Findings as CSV."""
    columns = (
        "fingerprint subject run state status code rule severity confidence path line function message"
        " verdict destination witness kernels gpu mib low_mib high_mib kind fix"
    )
    return Table(columns.split(), (_cells(row) for row in rows))


def _cells(row: FindingRow) -> tuple[Any, ...]:
    price = row.price
    cost = (
        (None,) * 5
        if price is None
        else (price.gpu, price.expected_mib, price.low_mib, price.high_mib, price.kind)
    )
    return (
        row.fingerprint,
        row.subject,
        row.run,
        row.state,
        row.status,
        row.code,
        row.rule,
        row.severity,
        row.confidence,
        row.path,
        row.line,
        row.function,
        row.message,
        row.verdict,
        row.destination,
        row.witness,
        row.kernels,
        *cost,
        row.fix,
    )


@dataclass(frozen=True)
class RunRow:
    """A run in a list; `price` is the maximum over its kernels on the chosen card."""

    number: int
    kind: str
    subject: str
    created: str
    tool: str
    toolchain: str
    revision: str
    findings: int
    kernels: int
    errors: int
    thinned: bool
    price: Price | None
    fingerprint: str | None


class RunPrices:
    """Prices of runs on one card, of all runs of a store."""

    def __init__(self, rows: Iterable[RunPrice], gpu: Gpu) -> None:
        self._gpu = gpu
        self._rows: dict[int, list[RunPrice]] = {}
        for row in rows:
            self._rows.setdefault(row.run, []).append(row)

    def of(self, run: int) -> tuple[Price | None, str | None]:
        """What a run costs, and the fingerprint of the finding behind that."""
        priced: list[tuple[Price, Mapping[str, Any]]] = []
        for row in self._rows.get(run, ()):
            if (price := price_on(row.record, self._gpu)) is not None:
                priced.append((price, row.record))
        top = worst(price for price, _ in priced)
        if top is None:
            return None, None
        return top, next(str(record["fingerprint"]) for price, record in priced if price == top)


def run_row(run: Run, prices: RunPrices) -> RunRow:
    """A row out of a run."""
    price, fingerprint = prices.of(run.number)
    return RunRow(
        run.number,
        run.kind,
        run.subject,
        run.created,
        run.tool,
        run.toolchain,
        run.revision,
        run.finding_count,
        run.kernel_count,
        len(run.errors),
        run.thinned,
        price,
        fingerprint,
    )


def runs_table(rows: Iterable[RunRow]) -> Table:
    """Runs as CSV."""
    columns = (
        "run kind subject created tool toolchain revision findings kernels errors thinned gpu mib price_kind"
    )
    return Table(
        columns.split(),
        (
            (
                row.number,
                row.kind,
                row.subject,
                row.created,
                row.tool,
                row.toolchain,
                row.revision,
                row.findings,
                row.kernels,
                row.errors,
                row.thinned,
                row.price.gpu if row.price else None,
                row.price.expected_mib if row.price else None,
                row.price.kind if row.price else None,
            )
            for row in rows
        ),
    )


def run_of(view: View, number: int) -> Run:
    """A run by its number.

    Raises:
        NotThereError: there is none.
    """
    try:
        return view.store.run(number)
    except ConfigError as error:
        raise NotThereError(error.message) from error


@dataclass(frozen=True)
class Paging:
    """Where a page of a list stands: its number from 1, how many there are, rows of the whole list."""

    number: int
    count: int
    size: int
    total: int


def newest_of_subjects(runs: Iterable[Run]) -> tuple[Run, ...]:
    """The newest run of every subject, probe runs aside; `runs` come newest first."""
    found: dict[str, Run] = {}
    for run in runs:
        if run.kind != "probe":
            found.setdefault(run.subject, run)
    return tuple(found.values())
