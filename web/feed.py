"""What other programs show: new findings as an Atom feed, the price of the newest runs as a badge."""

from __future__ import annotations

from urllib.parse import quote, urlencode
from xml.sax.saxutils import escape, quoteattr

from ptxguard.memcost import Gpu
from ptxguard.store.rows import FindingFilter, StoredFinding
from ptxguard.store.store import Store
from ptxguard.web.params import Param
from ptxguard.web.prices import Price, worst
from ptxguard.web.rowsof import RunPrices, newest_of_subjects
from ptxguard.web.words import gib_words, mib_words, short, visible

PARAMS = (Param("subject", "Only this subject."),)
_ENTRIES = 50
_RUNS = 20
_CHAR = 6.6  # width of a character of the badge's font, in px
_COLORS = {"free": "#1a7f37", "costs": "#b3261e", "unknown": "#57606a"}


def render_feed(store: Store, base: str, subject: str | None) -> str:
    """Findings that were new or came back in the last runs, the newest first.

    Args:
        store: where they are.
        base: address of the site, without a final slash.
        subject: only this one; None: all.
    """
    runs = [run for run in store.runs(None, subject) if run.kind != "probe" and not run.thinned][:_RUNS]
    entries: list[str] = []
    for run in runs:
        for state in ("new", "reopened"):
            if len(entries) >= _ENTRIES:
                break
            found = store.findings(FindingFilter(run=run.number, state=state), 1, _ENTRIES - len(entries))
            entries += [_entry(one, base, run.created) for one in found.rows]
    updated = runs[0].created if runs else "1970-01-01T00:00:00Z"
    own = f"{base}/feed.atom" + (f"?{urlencode({'subject': subject})}" if subject else "")
    title = f"ptxguard: new findings{f' of {subject}' if subject else ''}"
    head = (
        '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">\n'
        f"<title>{_text(title)}</title>\n<id>{_text(own)}</id>\n<updated>{updated}</updated>\n"
        f'<link rel="self" href={quoteattr(own)}/>\n<link href={quoteattr(base + "/findings")}/>\n'
        "<author><name>ptxguard</name></author>\n"
    )
    return head + "".join(entries) + "</feed>\n"


def _entry(finding: StoredFinding, base: str, created: str) -> str:
    record = finding.record
    query = urlencode({"subject": finding.subject, "run": finding.run})
    link = f"{base}/findings/{quote(finding.fingerprint, safe='')}?{query}"
    title = f"{record['severity']} {record['code']} {short(record['path'])}:{record['line']}"
    return (
        f"<entry>\n<title>{_text(title)}</title>\n<id>{_text(link)}</id>\n<updated>{created}</updated>\n"
        f"<link href={quoteattr(link)}/>\n<category term={quoteattr(finding.state)}/>\n"
        f"<summary>{_text(record['message'])}</summary>\n</entry>\n"
    )


def _text(text: str) -> str:
    """Text for XML 1.0, which has no control characters; hidden ones are written out."""
    return escape(visible(text)).replace("\x00", "\ufffd")


def render_badge(store: Store, gpu: Gpu, subject: str | None) -> str:
    """The price of the newest runs on a card; it never says "clean" where nothing was looked at."""
    runs = newest_of_subjects(store.runs(None, subject))
    prices = RunPrices(store.run_prices([run.number for run in runs]), gpu)
    top = worst(prices.of(run.number)[0] for run in runs)
    text, color = _badge_words(top, looked_at=bool(runs), whole=not any(run.errors for run in runs))
    label = f"ptxguard {gpu.name}"
    left, right = (round(len(part) * _CHAR) + 12 for part in (label, text))
    title = _text(f"{label}: {text}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img"'
        f' aria-label="{title}"><title>{title}</title>'
        f'<rect width="{left + right}" height="20" rx="3" fill="#24292f"/>'
        f'<path d="M{left} 0h{right - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H{left}z" fill="{_COLORS[color]}"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="6" y="14">{_text(label)}</text>'
        f'<text x="{left + 6}" y="14">{_text(text)}</text></g></svg>\n'
    )


def _badge_words(price: Price | None, *, looked_at: bool, whole: bool) -> tuple[str, str]:
    if not looked_at:
        return "no run", "unknown"
    if price is None or price.expected_mib == 0:
        return ("0 MiB", "free") if whole else ("unread files", "unknown")
    if price.expected_mib is None:
        return "unknown", "unknown"
    mib = price.expected_mib
    return gib_words(mib) if mib >= 1024 else mib_words(mib), "costs"
