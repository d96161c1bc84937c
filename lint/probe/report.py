"""A probe result as text for a reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ptxguard.arch import SYSCALL_ARCHES

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEAD = "".join(
    f"{title:>{width}}"
    for title, width in (
        ("frame B", 8),
        ("limit before", 14),
        ("after", 8),
        ("predicted MiB", 15),
        ("measured MiB", 14),
        ("after lowering", 16),
    )
)


def render_line(record: dict[str, Any]) -> str:
    """One variant, one line."""
    verdict = record["verdict"]
    load = verdict["load_mib"]
    loading = f"; loading took {load:.0f} MiB" if load and load > 2 else ""
    return f"{record['name']:<68} {verdict['conclusion']}{loading}"


def render_result(result: dict[str, Any]) -> str:
    """The whole run: card, table of the controls, forms, summary."""
    card = result["card"]
    lines = [
        f"{card['name']} ({card['sm']}, {card['sm_count']} SM x {card['threads_per_sm']} threads)",
        f"driver {card['driver']} (CUDA {card['cuda']}), NVRTC {card['toolkit']}, {result['date']}",
        "",
    ]
    controls = [_control(record) for record in result["variants"] if record["kind"] == "frame"]
    lines += [_HEAD, *controls, ""] if controls else []
    lines += [*(render_line(record) for record in result["variants"] if record["kind"] != "frame")]
    return "\n".join([*lines, "", *_summary(result["summary"], card)])


def _control(record: dict[str, Any]) -> str:
    verdict = record["verdict"]
    frame = record.get("frame_bytes", 0)
    if verdict["agrees"] is None:
        return f"{frame:>8}  {verdict['conclusion']}"
    figures = f"{verdict['limit_before']:>14}{verdict['limit_after']:>8}{verdict['predicted_mib']:>15.2f}"
    mark = "" if verdict["agrees"] else "  DISAGREES"
    held = _mib(verdict["held_after_lowering_mib"])
    return f"{frame:>8}{figures}{verdict['measured_mib']:>14.2f}{held:>16}{mark}"


def _mib(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


def _summary(summary: dict[str, Any], card: dict[str, Any]) -> list[str]:
    lines = [f"{summary['variants']} variants, each in a process of its own."]
    lines += _named("The model is off by more than 2 MiB", summary["disagree"])
    lines += _named("Wrong data", summary["data_wrong"])
    lines += _named("The two spellings moved different data", summary["spellings_differ"])
    lines += _named("This target cannot assemble", summary["not_assembled"])
    lines += _named("The reservation did not fit", summary["no_room"])
    lines += _named("The driver offers no such function to this target", summary["not_offered"])
    lines += _named("A driver call failed", summary["failed"])
    lines += _named("Did not finish", summary["not_finished"])
    if summary["agree"] and not summary["disagree"]:
        lines.append(f"{summary['agree']} first launches agree with the model within 2 MiB.")
    if summary["data_right"] and not (summary["data_wrong"] or summary["spellings_differ"]):
        lines.append(f"{summary['data_right']} copies moved exactly the expected data.")
    if summary["given_back_by_lowering"] is not None:
        word = "gave back" if summary["given_back_by_lowering"] else "did NOT give back"
        lines.append(
            f"Mitigation: lowering the stack limit {word} every reservation; the next launch takes it again."
        )
    if int(card["sm"][3:]) not in SYSCALL_ARCHES:
        lines.append(
            f"On {card['sm']} the copies are native. That says nothing about sm_120 and sm_121, where they"
            " call the driver; the controls confirm the price model on this card only."
        )
    return lines


def _named(text: str, names: Sequence[str]) -> list[str]:
    return [f"{text}: {', '.join(names)}."] if names else []
