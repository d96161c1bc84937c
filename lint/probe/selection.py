"""Which variants answer a set of findings: both spellings of every copy function that they name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ptxguard.errors import ConfigError
from ptxguard.probe.forms import FORMS
from ptxguard.probe.variants import Variant, copy_variants

if TYPE_CHECKING:
    from pathlib import Path


def variants_of_findings(path: Path) -> tuple[Variant, ...]:
    """The variants that measure what `check` or `scan` found.

    Raises:
        ConfigError: the file is no JSON of `check` or `scan`, or names no copy function.
    """
    try:
        record = json.loads(path.read_text("utf-8"))
        syscalls = {finding.get("syscall") for finding in record["findings"]}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"holds no findings of `check` or `scan`: {error}", path=str(path)) from None
    forms = {
        (form.name, multicast)
        for form in FORMS
        for multicast in (False, True)
        if form.syscall(multicast=multicast) in syscalls
    }
    chosen = tuple(
        variant
        for variant in copy_variants()
        if (variant.form, variant.multicast) in forms and not variant.peer and not variant.frame_bytes
    )
    if not chosen:
        raise ConfigError(
            "names no bulk copy that calls the driver; there is nothing to measure", path=str(path)
        )
    return chosen
