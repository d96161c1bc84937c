"""The recorded run of an H200: what it shows, judged again from its raw stages."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxguard.memcost import expected_mib, find_gpu, reservation_mib
from ptxguard.probe.api import Card
from ptxguard.probe.forms import FORMS
from ptxguard.probe.report import render_result
from ptxguard.probe.result import read_result, summarise
from ptxguard.probe.verdict import judge

RESULT = read_result(Path(__file__).parent.parent / "samples/probe/h200_driver_580.159.04.json")
CARD = Card(**RESULT["card"])
VARIANTS = {record["name"]: record for record in RESULT["variants"]}
CONTROLS = (512, 1024, 1040, 1536, 2048, 4096, 8192, 14608, 16384, 32768, 65536)
MIB = 1 << 20


def stages(name: str) -> dict[str, dict[str, int]]:
    return {item["stage"]: item for item in VARIANTS[name]["stages"]}


@pytest.mark.parametrize("frame", CONTROLS)
def test_controls_agree_with_the_model(frame: int) -> None:
    """Free memory of the driver and of NVML, each against SM x threads x bytes."""
    found = stages(f"frame.{frame}")
    model = reservation_mib(find_gpu(RESULT["card"]["name"]), frame)
    taken = (found["after load"]["free_bytes"] - found["after first launch"]["free_bytes"]) / MIB
    used = "nvml_device_used_bytes"
    assert taken == expected_mib(model)
    assert (found["after first launch"][used] - found["after load"][used]) / MIB == taken
    assert found["after first launch"]["stack_limit_bytes"] == max(frame, 1024)


@pytest.mark.parametrize("frame", CONTROLS)
def test_lowering_the_limit_gives_it_back_until_the_next_launch(frame: int) -> None:
    found = stages(f"frame.{frame}")
    assert found["after limit lowered"]["free_bytes"] == found["after load"]["free_bytes"]
    assert found["after launch again"]["free_bytes"] == found["after first launch"]["free_bytes"]
    assert found["after second launch"]["free_bytes"] == found["after first launch"]["free_bytes"]


@pytest.mark.parametrize("form", [form.name for form in FORMS])
def test_both_spellings_are_native_and_move_the_same_data(form: str) -> None:
    cluster, cta = VARIANTS[f"{form}.cluster.direct"], VARIANTS[f"{form}.cta.direct"]
    for record in (cluster, cta):
        assert record["data"]["arrived"] == record["data"]["completed"] == [True]
        assert record["verdict"]["measured_mib"] == 0
        assert record["verdict"]["limit_after"] == 1024
    assert cluster["data"]["sha256"] == cta["data"]["sha256"]
    assert VARIANTS[f"{form}.multicast"]["data"]["arrived"] == [True, True]
    for spelling in ("cluster", "cta"):
        graph = VARIANTS[f"{form}.{spelling}.graph"]
        assert graph["data"]["sha256"] == cta["data"]["sha256"]


def test_completion_lands_on_the_barrier_of_the_destination() -> None:
    for spelling in ("cta", "cluster"):
        peer = VARIANTS[f"tensor_2d_tile.{spelling}.peer_destination"]["data"]
        own = VARIANTS[f"tensor_2d_tile.{spelling}.peer_mbarrier"]["data"]
        assert peer["arrived"] == peer["completed"] == [False, True]
        assert own["arrived"] == own["completed"] == [True, False]


def test_an_own_frame_and_a_driver_function_do_not_add() -> None:
    # driver 580.159.04 declares 536 B for aligned_malloc on sm_90; the limit stays that of the frame
    found = stages("refer.__cuda_syscall_aligned_malloc.frame_4096")
    assert found["after first launch"]["stack_limit_bytes"] == 4096
    loads = {
        name: VARIANTS[f"refer.{name}"]["verdict"]["load_mib"] for name in ("printf", "assert", "malloc")
    }
    assert loads == {"printf": 64, "assert": 92, "malloc": 138}  # facts of the same card, taken apart


def test_the_first_launch_waits_for_a_running_kernel() -> None:
    verdict = VARIANTS["wait.8192"]["verdict"]
    assert verdict["wait_ms"] > 1400 > 1 > verdict["second_wait_ms"]


def test_the_recorded_verdicts_follow_from_the_stages() -> None:
    for record in RESULT["variants"]:
        raw = {key: value for key, value in record.items() if key != "verdict"}
        assert judge(raw, CARD) == record["verdict"], record["name"]
    assert summarise(RESULT["variants"]) == RESULT["summary"]
    assert RESULT["summary"]["disagree"] == RESULT["summary"]["data_wrong"] == []


def test_the_report_says_what_the_card_cannot_show() -> None:
    text = render_result(RESULT)
    assert "says nothing about sm_120" in text
    assert "16632.00" in text
