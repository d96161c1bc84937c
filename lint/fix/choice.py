"""Which of the two spellings a copy's fix takes: the bare word, or a macro under a guard on the toolkit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.fix.spelling import call_fix, cta_fix

if TYPE_CHECKING:
    from ptxguard.finding import Fix
    from ptxguard.model import CopySite

# The first toolkit with PTX ISA 8.6, which has the form (PTX ISA, "cp.async.bulk", PTX ISA Notes).
CTA_FORM_TOOLKIT = (12, 8)


def needs_guard(cuda_min: tuple[int, int] | None) -> bool:
    """Whether a project supports toolkits that lack the form."""
    return cuda_min is not None and cuda_min < CTA_FORM_TOOLKIT


def destination_fix(site: CopySite, safety: str, cuda_min: tuple[int, int] | None) -> Fix | None:
    """The fix of a copy whose destination lies in the issuing CTA, or None where it cannot be written.

    A PTX module says itself which version it needs, so that no guard belongs into it. A library has
    the other call only with a toolkit that has the form.
    """
    if site.kind == "wrapper":
        return None if needs_guard(cuda_min) else call_fix(site, safety)
    if not needs_guard(cuda_min) or site.kind == "ptx":
        return cta_fix(site, safety)
    from ptxguard.fix.guarded import guarded_fix  # only projects that support old toolkits pay for it

    return guarded_fix(site, safety)
