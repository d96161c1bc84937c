"""What the words of the site mean, and where else its data can be had."""

from __future__ import annotations

from dataclasses import dataclass

from ptxguard import __version__
from ptxguard.web.page import PageSpec, View
from ptxguard.web.table import Table

WORDS = (
    ("measured", "read from a card by probe launches, for that card and driver"),
    ("declared", "the stack that the driver's own image of the function declares, priced by the formula"),
    (
        "predicted",
        "a public measurement of the function's stack, priced by the formula; not run on this card",
    ),
    ("unknown", "nobody has a figure: never shown as 0"),
    ("one", "every launch in sight has one CTA per cluster"),
    ("larger", "some launch has several CTAs per cluster"),
    ("undecided", "the cluster size cannot be shown, with the reason"),
    ("local", "the destination provably lies in the CTA that issues the copy"),
    ("peer", "the destination is another CTA of the cluster"),
    ("new", "no earlier run of the subject had it"),
    ("reopened", "it was resolved in an earlier run and is back"),
    ("resolved", "the run before had it, this one read the file and has it no more"),
    ("confirmed (binary)", "compiled kernels of this source make the call"),
    ("refuted (binary)", "its kernels are compiled for the target and none makes the call"),
    ("unseen (binary)", "its kernels are not compiled in for the target"),
)


@dataclass(frozen=True)
class AboutPage:
    """Words with their meaning, and the version."""

    version: str
    words: tuple[tuple[str, str], ...]


def build(view: View) -> AboutPage:
    """The context."""
    return AboutPage(__version__, WORDS)


def table(page: AboutPage) -> Table:
    """Words as CSV."""
    return Table(("word", "meaning"), page.words)


PAGE = PageSpec(
    "about",
    "/about",
    "About",
    "What the words of the site mean, and where its data can be had.",
    build,
    AboutPage,
    table,
    "about.html",
)
