"""`ptxguard cost`: what a stack size or a driver function costs on every card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ptxguard.arch import Target
from ptxguard.errors import ConfigError
from ptxguard.memcost import (
    COPY_SYSCALL_PREFIX,
    DECLARED,
    UNKNOWN,
    Gpu,
    StackNeed,
    find_gpu,
    gpus,
    price,
    public_need,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptxguard.binary.driver import Declaration, DriverTable
    from ptxguard.finding import Cost

SYSCALL_PREFIX = "__cuda_syscall_"

BEHAVIOUR = """\
Net of the 1,024 B default limit that every context holds anyway. The driver takes this memory once per
context and process, at the first launch of such a kernel or when a CUDA graph with it is instantiated.
Over several kernels it is the maximum, never the sum; it stays until the limit is lowered or the context
ends. Where it is not free, the launch fails with cudaErrorMemoryAllocation. The first such launch waits
until running kernels have ended.
Without rebuilding: cudaDeviceSetLimit(cudaLimitStackSize, 1024) after the launch gives it back until the
next such launch. Loading a module that refers to a driver function takes a second part, known only by
`ptxguard probe`."""


@click.command()
@click.option("--stack-bytes", type=click.IntRange(min=0), help="Stack limit in bytes per thread.")
@click.option("--syscall", help="Driver function; the prefix __cuda_syscall_ may be left out.")
@click.option(
    "--from", "findings", type=click.Path(path_type=Path), help="Price what these findings call (JSON)."
)
@click.option("--gpu", "gpu_names", multiple=True, help="Only this card (repeatable); default: all.")
@click.option("--driver", help="Use what this libcuda.so declares ('auto': the installed one).")
@click.option(
    "--probe", "probe_file", type=click.Path(path_type=Path), help="Use launches of a probe result."
)
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--list-gpus", is_flag=True, help="Name every card with its figures and their source.")
def command(
    stack_bytes: int | None,
    syscall: str | None,
    findings: Path | None,
    gpu_names: tuple[str, ...],
    driver: str | None,
    probe_file: Path | None,
    output_format: str,
    list_gpus: bool,  # noqa: FBT001 - click passes every option by keyword
) -> None:
    """Price a stack size, a syscall or findings: the device memory that one context loses, on every card.

    With --driver alone: what the driver declares for its copy functions, with the price that follows.
    """
    cards = tuple(find_gpu(name) for name in gpu_names) or gpus()
    if list_gpus:
        _show_gpus(cards)
        return
    if sum(option is not None for option in (stack_bytes, syscall, findings)) > 1:
        raise ConfigError("--stack-bytes, --syscall and --from exclude each other; give one of them")
    table = _read_driver(driver) if driver else None
    result = _read_probe(probe_file) if probe_file else None
    if stack_bytes is not None:
        rows = [(card, price(card, _stack_need(stack_bytes, card, result))) for card in cards]
        _show_costs(rows, output_format)
    elif syscall is not None:
        symbol = syscall if syscall.startswith("__") else SYSCALL_PREFIX + syscall
        _show_costs(price_on(symbol, cards, table, result), output_format)
    elif findings is not None:
        named = [row for name in _called_by(findings) for row in price_on(name, cards, table, result)]
        _show_costs(named, output_format)
    elif table is not None:
        _show_declarations(table, cards, output_format)
    else:
        raise ConfigError("nothing to price; give --stack-bytes, --syscall, --from or --driver")


def _read_driver(name: str) -> DriverTable:
    from ptxguard.binary.driver import find_libcuda, read_driver

    return read_driver(find_libcuda() if name == "auto" else Path(name))


def _read_probe(path: Path) -> dict[str, Any]:
    from ptxguard.probe.result import read_result

    return read_result(path)


def _called_by(path: Path) -> list[str]:
    """Driver functions that the findings of `check` or `scan` name, each once."""
    try:
        record = json.loads(path.read_text("utf-8"))
        names = dict.fromkeys(finding["syscall"] for finding in record["findings"] if finding.get("syscall"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"holds no findings of `check` or `scan`: {error}", path=str(path)) from None
    if not names:
        raise ConfigError("names no driver function; there is nothing to price", path=str(path))
    return list(names)


def _stack_need(size: int, card: Gpu, result: dict[str, Any] | None) -> StackNeed:
    if result is not None:
        from ptxguard.probe.evidence import measured_frame

        if (measured := measured_frame(result, card, size)) is not None:
            return measured
    return StackNeed(size, size, size, UNKNOWN, "stack size given by the user")


def price_on(
    symbol: str, cards: Sequence[Gpu], table: DriverTable | None, result: dict[str, Any] | None = None
) -> list[tuple[Gpu, Cost]]:
    """Price a driver function on the cards whose target calls it: measured, declared, public, unknown.

    Raises:
        ConfigError: no card of the list calls it.
    """
    copies = symbol.startswith(COPY_SYSCALL_PREFIX)
    callers = [card for card in cards if not copies or Target.parse(card.sm).calls_driver]
    if not callers:
        raise ConfigError(
            f"{symbol} is never called on {cards[0].sm}: bulk copies are native there and cost nothing"
        )
    return [(card, price(card, _need(symbol, card, table, result))) for card in callers]


def _need(symbol: str, card: Gpu, table: DriverTable | None, result: dict[str, Any] | None) -> StackNeed:
    if result is not None:
        from ptxguard.probe.evidence import measured_syscall

        if (measured := measured_syscall(result, card, symbol)) is not None:
            return measured
    public = public_need(symbol)
    row = table.find(Target.parse(card.sm).number, symbol) if table else None
    if table is None or row is None:
        return public
    return declared_need(table, row, public)


def declared_need(table: DriverTable, row: Declaration, public: StackNeed) -> StackNeed:
    """What a driver declares; where a public measurement is far above it, both are said."""
    declared = row.min_stack_bytes
    source = f"MIN_STACK_SIZE in libcuda of driver {table.version}"
    known = [size for size in (public.bytes_per_thread, declared) if size is not None]
    if public.bytes_per_thread is not None and declared < public.bytes_per_thread // 2:
        # Driver 580 declares 72 B for plain bulk copies, reports measured 14,448 B: neither is thrown away.
        source += f" declares only {declared} B; {public.source}: {public.bytes_per_thread} B measured"
    return StackNeed(declared, min(known), max(known), DECLARED, source)


def _record(card: Gpu, cost: Cost) -> dict[str, Any]:
    share = None if cost.mib is None else round(cost.mib / (card.memory_gib * 1024), 4)
    return {
        "gpu": cost.gpu,
        "sm": cost.sm,
        "bytes_per_thread": cost.bytes_per_thread,
        "mib": cost.mib,
        "expected_mib": cost.expected_mib,
        "low_mib": cost.low_mib,
        "high_mib": cost.high_mib,
        "share_of_memory": share,
        "basis": cost.basis,
        "source": cost.source,
    }


def _show_costs(rows: Sequence[tuple[Gpu, Cost]], output_format: str) -> None:
    if output_format == "json":
        click.echo(json.dumps({"version": 1, "costs": [_record(*row) for row in rows]}, indent=2))
        return
    columns = f"{'B/thread':>9}{'MiB net':>10}{'share':>8}{'left GiB':>10}{'range MiB':>18}"
    click.echo(f"{'GPU':<22}{'target':<8}{columns}  basis")
    for card, cost in rows:
        click.echo(_cost_line(card, cost))
    for source in dict.fromkeys(cost.source for _, cost in rows):
        click.echo(f"\nSource: {source}.")
    click.echo(f"\n{BEHAVIOUR}")


def _cost_line(card: Gpu, cost: Cost) -> str:
    head = f"{card.name:<22}{card.sm:<8}"
    if cost.mib is None:
        return f"{head}{'?':>9}{'unknown':>10}{'?':>8}{'?':>10}{'?':>18}  {cost.basis}"
    share = cost.mib / (card.memory_gib * 1024)
    left = card.memory_gib - cost.mib / 1024
    span = "" if cost.low_mib == cost.high_mib else f"{cost.low_mib}-{cost.high_mib}"
    figures = f"{cost.bytes_per_thread:>9}{cost.mib:>10.1f}{share:>8.1%}{left:>10.1f}{span:>18}"
    return f"{head}{figures}  {cost.basis}"


def _show_declarations(table: DriverTable, cards: Sequence[Gpu], output_format: str) -> None:
    """Every declaration with its price on the cards of that target."""
    shown = table.of_copies()
    rows = [(row, [card for card in cards if card.sm == f"sm_{row.sm}"]) for row in shown]
    priced = [
        (row, card, price(card, declared_need(table, row, public_need(row.syscall))))
        for row, same in rows
        for card in same
        if Target.parse(card.sm).calls_driver
    ]
    if output_format == "json":
        declared = [vars(row) for row in shown]
        costs = [_record(card, cost) | {"syscall": row.syscall} for row, card, cost in priced]
        driver = {"path": table.path, "version": table.version}
        click.echo(
            json.dumps({"version": 1, "driver": driver, "declarations": declared, "costs": costs}, indent=2)
        )
        return
    click.echo(f"Driver {table.version}, {table.path}: declared by its device functions, not measured")
    click.echo(f"{'sm':<5}{'syscall':<62}{'stack B':>8}{'frame B':>8}{'regs':>6}")
    for row in shown:
        sizes = f"{row.min_stack_bytes:>8}{row.frame_bytes:>8}{row.registers:>6}"
        click.echo(f"{row.sm:<5}{row.syscall:<62}{sizes}")
    for sm in dict.fromkeys(card.sm for _, card, _ in priced):
        top = max((item for item in priced if item[1].sm == sm), key=lambda item: item[2].mib or 0)
        click.echo(f"\nThe largest on {sm}, {top[0].syscall}:")
        _show_costs([(card, cost) for row, card, cost in priced if row == top[0]], "text")


def _show_gpus(cards: Sequence[Gpu]) -> None:
    for card in cards:
        memory = f"{card.memory_gib:g} GiB{', shared with the host' if card.integrated else ''}"
        size = f"{card.sm_count} SM x {card.threads_per_sm} threads, {memory}"
        click.echo(f"{card.name:<22}{card.sm:<8}{size}; {card.source}")
