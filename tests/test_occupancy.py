"""Room for warps as a card reports it, and by hand where no card was at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxguard.arch import Target
from ptxguard.memcost import gpus
from ptxguard.occupancy import Occupancy, limits_of, occupancy

MEASURED = [
    tuple(map(int, line.split("\t")))
    for line in (Path(__file__).parent / "data" / "occupancy_h200.tsv").read_text().splitlines()[2:]
]


def test_an_h200_reports_the_same_number_of_blocks():
    assert len(MEASURED) == 375
    for registers, shared, threads, blocks in MEASURED:
        held = occupancy("sm_90a", registers, threads, shared)
        assert held.warps == blocks * -(-threads // 32), (registers, shared, threads)


@pytest.mark.parametrize(
    ("target", "registers", "threads", "shared", "expected"),
    [
        ("sm_120f", 24, None, 0, Occupancy(48, 48, "threads")),
        ("sm_120f", 40, None, 0, Occupancy(48, 48, "threads")),
        ("sm_120f", 80, None, 0, Occupancy(24, 48, "registers")),
        ("sm_120f", 168, None, 0, Occupancy(12, 48, "registers")),
        ("sm_120", 255, None, 0, Occupancy(8, 48, "registers")),
        ("sm_120", 32, 32, 0, Occupancy(24, 48, "blocks")),
        ("sm_121a", 32, 128, 33_000, Occupancy(12, 48, "shared memory")),
        ("sm_86", 32, 1024, 0, Occupancy(32, 48, "threads")),
    ],
)
def test_limits_by_hand(target, registers, threads, shared, expected):
    assert occupancy(target, registers, threads, shared) == expected


def test_every_card_of_the_table_has_limits_that_agree_with_its_threads():
    for gpu in gpus():
        assert limits_of(gpu.sm).warps * 32 == gpu.threads_per_sm, gpu.name


def test_a_target_without_limits_is_unknown_and_never_a_number():
    assert occupancy("sm_75", 32) is None
    assert limits_of(Target(200).name) is None
