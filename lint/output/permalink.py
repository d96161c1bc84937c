"""Addresses of findings and rules on a findings site, for formats whose readers can follow a link."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from ptxguard.finding import Finding


def finding_link(site: str, finding: Finding) -> str:
    """Address of a finding, the same on a served site and on an exported one; empty without a site.

    Fingerprints are written with `-` there: not every file system takes a colon.
    """
    return f"{site}/findings/{quote(finding.fingerprint.replace(':', '-'), safe='')}" if site else ""


def rule_link(site: str, code: str) -> str:
    """Address of a rule's page; empty without a site."""
    return f"{site}/rules/{quote(code, safe='')}" if site else ""
