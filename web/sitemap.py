"""All pages of the site: the one list that routes, twins, API description and export walk."""

from __future__ import annotations

from ptxguard.web.page import PageSpec
from ptxguard.web.pages import (
    about,
    atlas,
    finding,
    findings,
    gpus,
    kernels,
    overview,
    probes,
    rules,
    runs,
    search,
)

PAGES: dict[str, PageSpec] = {
    page.name: page
    for page in (
        overview.PAGE,
        findings.PAGE,
        finding.PAGE,
        *kernels.PAGES,
        *runs.PAGES,
        *rules.PAGES,
        atlas.PAGE,
        *gpus.PAGES,
        *probes.PAGES,
        search.PAGE,
        about.PAGE,
    )
}
# In the navigation, in this order.
NAVIGATION = ("overview", "findings", "kernels", "runs", "probes", "gpus", "rules", "atlas", "about")
