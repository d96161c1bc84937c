"""The library: `check_ptx` and `scan_bytes` for what is in memory, `check_paths` for files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from ptxguard.arch import DEFAULT_TARGETS, Target
from ptxguard.engine import all_rules, run_rules, select_rules
from ptxguard.location import SourceFile
from ptxguard.memcost import DEFAULT_GPUS, Gpu, find_gpu
from ptxguard.model import Analysis
from ptxguard.rule import CheckOptions
from ptxguard.source.ptxsites import sites_of_ptx

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    from ptxguard.binary.facts import Artifact
    from ptxguard.errors import PtxguardError
    from ptxguard.finding import Finding
    from ptxguard.model import CopySite

PTX_NAME = "<ptx>"
BYTES_NAME = "<bytes>"


@dataclass(frozen=True)
class Checked:
    """What a check of files found.

    Attributes:
        findings: by path, line, column and code.
        sites: every bulk copy, worth a finding or not.
        errors: what could not be read or judged; with any of them an empty `findings` does not mean clean.
    """

    findings: tuple[Finding, ...]
    sites: tuple[CopySite, ...]
    errors: tuple[PtxguardError, ...]


@dataclass(frozen=True)
class Scanned:
    """What a scan of compiled code found.

    Attributes:
        findings: worst first.
        artifacts: images with their flagged kernels.
        errors: what could not be read; with any of them an empty `findings` does not mean clean.
    """

    findings: tuple[Finding, ...]
    artifacts: tuple[Artifact, ...]
    errors: tuple[PtxguardError, ...]


def check_ptx(
    text: str, target: str | Target, *, name: str = PTX_NAME, gpus: Iterable[str] = DEFAULT_GPUS
) -> list[Finding]:
    """Check one PTX module that is in memory; nothing is read from or written to disk after the first call.

    A first call imports the rules and the grammar (some tenths of a second); further ones take a few
    milliseconds. Nothing of a text is kept once its findings are let go.

    Args:
        text: the module, from `.version` on.
        target: where it will run, `sm_120a`; a module whose own `.target` is not assembled for it gives none.
        name: stands for the path in findings.
        gpus: names of the cards on which findings are priced.

    Returns:
        Findings of every rule by line, column and code; lines and columns are 1-based, in code points.

    Raises:
        ParseError: the text is no PTX module; with line and column.
        ConfigError: `target` is no target, or a card is not known.
    """
    wanted = Target.parse(target) if isinstance(target, str) else target
    options = CheckOptions(targets=(wanted,), targets_named=True, gpus=_cards(tuple(gpus)))
    return run_rules(Analysis(tuple(sites_of_ptx(SourceFile(name, text), (wanted,)))), all_rules(), options)


def check_paths(
    paths: Sequence[str | os.PathLike[str]],
    *,
    targets: Iterable[str] = (),
    cuda_min: tuple[int, int] | None = None,
    defines: Mapping[str, str | None] | None = None,
    public: Iterable[str] = (),
    gpus: Iterable[str] = DEFAULT_GPUS,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
) -> Checked:
    """Check files and folders as `ptxguard check` does, with the tree around them as evidence.

    Args:
        paths: files or folders.
        targets: `sm_120a` and the like; none stands for the defaults of the command.
        cuda_min: oldest toolkit (major, minor) that the project supports, or None.
        defines: macros as `-D` gives them; a value of None is a bare name.
        public: globs of headers that have callers outside of the tree.
        gpus: names of the cards on which findings are priced.
        select: codes or names of rules; none stands for all.
        ignore: rules to leave out.

    Raises:
        ConfigError: a target, a card or a rule is not known. What cannot be read is in `errors` instead.
    """
    from ptxguard.source.analyse import Options, analyse  # a compiler that checks PTX needs no C++ analysis

    rules = select_rules(select, ignore)
    named = tuple(dict.fromkeys(Target.parse(name) for name in targets))
    wanted = named or tuple(Target.parse(name) for name in DEFAULT_TARGETS)
    asked = CheckOptions(wanted, bool(named), cuda_min, _cards(tuple(gpus)))
    found = analyse([str(path) for path in paths], Options(wanted, cuda_min, defines or {}, tuple(public)))
    return Checked(tuple(run_rules(found, rules, asked)), found.sites, found.errors)


def scan_bytes(data: bytes, *, name: str = BYTES_NAME, gpus: Iterable[str] = DEFAULT_GPUS) -> Scanned:
    """Scan compiled code that is in memory as `ptxguard scan` does; nothing is read from or written to disk.

    Args:
        data: a whole file: library, object, cubin, fatbin, PTX, wheel or another archive.
        name: stands for its path in findings.
        gpus: names of the cards on which findings are priced.

    Raises:
        ConfigError: a card is not known. What cannot be read is in `errors` instead.
    """
    from ptxguard.binary.inventory import inventory_of_bytes  # a compiler that checks PTX reads no cubins
    from ptxguard.compiled import find_all

    found = inventory_of_bytes(data, name)
    errors = list(found.errors)
    findings = find_all(found.artifacts, _cards(tuple(gpus)), errors)
    return Scanned(findings, found.artifacts, tuple(errors))


@lru_cache(maxsize=16)
def _cards(names: tuple[str, ...]) -> tuple[Gpu, ...]:
    return tuple(dict.fromkeys(find_gpu(name) for name in names))
