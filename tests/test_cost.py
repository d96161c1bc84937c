"""`ptxguard cost` as a user calls it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from ptxguard.commands.cost import command
from ptxguard.errors import BinaryError, ConfigError

if TYPE_CHECKING:
    from pathlib import Path

TILE_2D = "__cuda_syscall_cp_async_bulk_tensor_2d_tile_unicast"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(command, arguments, catch_exceptions=True)
    if result.exception is not None:
        raise result.exception
    return result.output


def costs(*arguments: str) -> list[dict[str, Any]]:
    record = json.loads(run(*arguments, "--output-format", "json"))
    assert record["version"] == 1
    return record["costs"]


@pytest.mark.parametrize(
    ("size", "mib"), [(14608, [3382.7, 1631.7, 955.1]), (15960, [3719.4, 1794.1, 1050.2])]
)
def test_stack_bytes(size: int, mib: list[float]) -> None:
    cards = ["--gpu", "RTX 5090", "--gpu", "RTX 5090 Laptop", "--gpu", "GB10"]
    rows = costs("--stack-bytes", str(size), *cards)
    assert [row["mib"] for row in rows] == mib
    assert [row["expected_mib"] for row in rows] == [int(value) // 2 * 2 for value in mib]
    assert rows[0]["share_of_memory"] == round(mib[0] / 32768, 4)


def test_every_card_is_priced_by_default() -> None:
    rows = costs("--stack-bytes", "14608")
    assert {row["sm"] for row in rows} >= {"sm_80", "sm_90", "sm_120", "sm_121"}
    # (14608 - 1024) B x 132 SM x 2048 threads: 3502 MiB measured on the card
    assert {row["gpu"]: row["expected_mib"] for row in rows}["H200"] == 3502


def test_syscall_is_priced_only_where_it_is_called() -> None:
    rows = costs("--syscall", "cp_async_bulk_tensor_2d_tile_unicast")
    assert {row["sm"] for row in rows} == {"sm_120", "sm_121"}
    assert {row["basis"] for row in rows} == {"public measurement"}
    with pytest.raises(ConfigError, match="native there"):
        run("--syscall", TILE_2D, "--gpu", "H200")


def test_unknown_syscall_is_unknown() -> None:
    (row,) = costs("--syscall", "aligned_malloc", "--gpu", "RTX 5090")
    assert (row["mib"], row["share_of_memory"], row["basis"]) == (None, None, "unknown")
    assert "unknown" in run("--syscall", "aligned_malloc", "--gpu", "RTX 5090")


def test_text_says_basis_and_behaviour() -> None:
    text = run("--syscall", TILE_2D, "--gpu", "RTX 5090")
    for part in (
        "3382.7",
        "10.3%",
        "public measurement",
        "TransformerEngine issue 3765",
        "maximum, never the sum",
    ):
        assert part in text


def test_findings_are_priced_by_what_they_call(tmp_path: Path) -> None:
    file = tmp_path / "findings.json"
    file.write_text(json.dumps({"findings": [{"syscall": TILE_2D}, {"syscall": None}, {"syscall": TILE_2D}]}))
    (row,) = costs("--from", str(file), "--gpu", "RTX 5090")
    assert row["mib"] == 3382.7
    file.write_text('{"findings": []}')
    with pytest.raises(ConfigError, match="nothing to price"):
        run("--from", str(file))


def test_errors_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to price"):
        run()
    with pytest.raises(ConfigError, match="exclude each other"):
        run("--stack-bytes", "1", "--syscall", "x")
    with pytest.raises(BinaryError, match="cannot be read"):
        run("--driver", str(tmp_path / "none.so"))


def test_list_gpus() -> None:
    text = run("--list-gpus", "--gpu", "GB10")
    assert "48 SM x 1536 threads" in text
    assert "shared with the host" in text
