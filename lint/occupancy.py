"""How many warps an SM can hold at once: registers, shared memory and block size against the target's limits.

Registers are given to warps in units of 256 and lie in the quarters of an SM, shared memory comes in units of
128 bytes, of which the system takes 1 KiB a block. On an H200 (driver 580.159.04) equal to
cuOccupancyMaxActiveBlocksPerMultiprocessor in 375 of 375 cases; other targets by the limits of the manual.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxguard.arch import Target

WARP_THREADS = 32
_REGISTER_UNIT = 256
_WARP_UNIT = 4
_SHARED_UNIT = 128
_REGISTERS_PER_SM = 65_536
_RESERVED_SHARED = 1024
_KIB = 1024


@dataclass(frozen=True)
class SmLimits:
    """What an SM has.

    Attributes:
        warps: that can be resident.
        blocks: that can be resident.
        shared_bytes: of shared memory, with what the system takes of it.
    """

    warps: int
    blocks: int
    shared_bytes: int


# CUDA C++ Programming Guide, "Compute Capabilities", table "Technical Specifications per Compute Capability".
_LIMITS = {
    80: SmLimits(64, 32, 164 * _KIB),
    86: SmLimits(48, 16, 100 * _KIB),
    87: SmLimits(48, 16, 164 * _KIB),
    89: SmLimits(48, 24, 100 * _KIB),
    90: SmLimits(64, 32, 228 * _KIB),
    100: SmLimits(64, 32, 228 * _KIB),
    103: SmLimits(64, 32, 228 * _KIB),
    110: SmLimits(48, 24, 228 * _KIB),
    120: SmLimits(48, 24, 100 * _KIB),
    121: SmLimits(48, 24, 100 * _KIB),
}


@dataclass(frozen=True)
class Occupancy:
    """Warps that an SM can hold of a kernel.

    Attributes:
        warps: at most.
        of: what the SM could hold.
        limit: registers, shared memory, blocks or threads: what allows no more.
    """

    warps: int
    of: int
    limit: str


def limits_of(target: str) -> SmLimits | None:
    """The limits of a target; None where they are not in the table."""
    return _LIMITS.get(Target.parse(target).number)


def occupancy(
    target: str, registers: int, block_threads: int | None = None, shared_bytes: int = 0
) -> Occupancy | None:
    """The most warps an SM can hold; None where the limits of the target are not known.

    Args:
        target: `sm_120f`.
        registers: a thread.
        block_threads: of a block; None: not known, then only the registers are looked at.
        shared_bytes: of a block, static.
    """
    limits = limits_of(target)
    if limits is None:
        return None
    by_registers = _warps_by_registers(registers)
    if block_threads is None:
        warps = min(by_registers, limits.warps)
        return Occupancy(warps, limits.warps, "registers" if warps < limits.warps else "threads")
    block_warps = -(-block_threads // WARP_THREADS)
    shared = -(-(shared_bytes + _RESERVED_SHARED) // _SHARED_UNIT) * _SHARED_UNIT
    blocks = {
        "threads": limits.warps // block_warps,
        "blocks": limits.blocks,
        "registers": by_registers // block_warps,
        "shared memory": limits.shared_bytes // shared,
    }
    limit = min(blocks, key=lambda name: blocks[name])
    return Occupancy(blocks[limit] * block_warps, limits.warps, limit)


def _warps_by_registers(registers: int) -> int:
    """Warps whose registers fit, in units of 4 (a quarter of the SM each)."""
    a_warp = -(-max(registers, 1) * WARP_THREADS // _REGISTER_UNIT) * _REGISTER_UNIT
    return _REGISTERS_PER_SM // a_warp // _WARP_UNIT * _WARP_UNIT
