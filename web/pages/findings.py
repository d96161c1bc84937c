"""The list of findings, with facets in the URL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ptxguard.finding import Confidence
from ptxguard.store.rows import STATUSES, UNREVIEWED, Facet, FindingFilter
from ptxguard.web.page import NotThereError, PageSpec, View
from ptxguard.web.params import Param
from ptxguard.web.rowsof import WORST_FIRST, FindingRow, Paging, finding_row, findings_table, run_of

SIZE = 50
# Steps of the price filter, in MiB on the chosen card.
PRICE_STEPS = (1, 256, 1024, 2048)
# Order and headings of the facets; the values of each come from the store with their counts.
FACETS = {
    "severity": "Severity",
    "code": "Rule",
    "state": "Since the run before",
    "status": "Review",
    "confidence": "Confidence",
    "verdict": "Cluster size",
    "destination": "Destination",
    "witness": "Compiled code says",
    "basis": "Price known from",
    "target": "Target",
    "subject": "Subject",
    "path": "File",
}
_MOST_VALUES = 12


@dataclass(frozen=True)
class FacetValue:
    """One value of a facet: how many findings have it, and whether it is chosen."""

    value: str
    count: int
    chosen: bool


@dataclass(frozen=True)
class FacetGroup:
    """A facet with its most frequent values; `more` says whether there are others."""

    name: str
    heading: str
    values: tuple[FacetValue, ...]
    more: bool


@dataclass(frozen=True)
class FindingsPage:
    """A page of findings.

    Attributes:
        filters: chosen values by parameter.
        rows: of this page.
        paging: where it stands.
        facets: to go on from here.
        price_steps: (MiB, findings that cost at least that on the chosen card, whether chosen).
        gpu: chosen card.
    """

    filters: dict[str, Any]
    rows: tuple[FindingRow, ...]
    paging: Paging
    facets: tuple[FacetGroup, ...]
    price_steps: tuple[tuple[int, int, bool], ...]
    gpu: str


def build(view: View) -> FindingsPage:
    """The context."""
    chosen = {name: value for name, value in view.values.items() if name != "page" and value is not None}
    if "run" in chosen and run_of(view, chosen["run"]).kind == "probe":
        raise NotThereError(f"run {chosen['run']} is a probe of a card and has no findings")
    wanted = _filter(chosen, view.gpu.name)
    number = view.values["page"]
    found = view.store.findings(wanted, number, SIZE)
    if number > found.count:
        raise NotThereError(f"there is no page {number} of these findings")
    steps = tuple(
        (
            step,
            view.store.count(_filter({**chosen, "mib": float(step)}, view.gpu.name)),
            step == chosen.get("mib"),
        )
        for step in PRICE_STEPS
    )
    return FindingsPage(
        filters=chosen,
        rows=tuple(finding_row(row, view.gpu) for row in found.rows),
        paging=Paging(number, found.count, SIZE, found.total),
        facets=tuple(_groups(view.store.facets(wanted, _MOST_VALUES + 1), chosen, found.total)),
        price_steps=steps,
        gpu=view.gpu.name,
    )


def _filter(chosen: dict[str, Any], gpu: str) -> FindingFilter:
    mib = chosen.get("mib")
    fields = {name: value for name, value in chosen.items() if name != "mib"}
    return FindingFilter(**fields, **({"gpu": gpu, "min_mib": mib} if mib is not None else {}))


def _groups(facets: tuple[Facet, ...], chosen: dict[str, Any], total: int) -> list[FacetGroup]:
    named: dict[str, list[Facet]] = {name: [] for name in FACETS}
    for facet in facets:
        if facet.name in named:
            named[facet.name].append(facet)
    return [_group(name, values, chosen.get(name), total) for name, values in named.items() if values]


def _group(name: str, values: list[Facet], chosen: Any, total: int) -> FacetGroup:
    """The most frequent values, and the chosen one, which all findings have, wherever it stands."""
    rows = [FacetValue(facet.value, facet.count, facet.value == chosen) for facet in values[:_MOST_VALUES]]
    if chosen is not None and not any(row.chosen for row in rows):
        rows.append(FacetValue(str(chosen), total, chosen=True))
    return FacetGroup(name, FACETS[name], tuple(rows), len(values) > _MOST_VALUES)


PAGE = PageSpec(
    "findings",
    "/findings",
    "Findings",
    "Findings of the newest run of every subject, or of one run, by facets.",
    build,
    FindingsPage,
    lambda page: findings_table(page.rows),
    "findings.html",
    params=(
        Param("run", "Number of a run; default: the newest run of every subject.", "integer"),
        Param("subject", "Subject of the run."),
        Param("severity", "Severity.", "choice", WORST_FIRST),
        Param("code", "Code of the rule."),
        Param("confidence", "Confidence.", "choice", tuple(level.word for level in reversed(Confidence))),
        Param("target", "A target that the guards let compile."),
        Param("verdict", "Verdict about the cluster size."),
        Param("destination", "Verdict about the destination's address."),
        Param("path", "Path of the file."),
        Param("status", "What people decided.", "choice", (*STATUSES, UNREVIEWED)),
        Param("state", "Against the run before.", "choice", ("new", "unchanged", "reopened")),
        Param("witness", "What compiled code says.", "choice", ("confirmed", "refuted", "unseen")),
        Param("basis", "Where a price is known from."),
        Param("mib", "Costs at least this many MiB on the chosen card.", "number"),
        Param("page", "Page of the list.", "integer", default=1),
    ),
)
