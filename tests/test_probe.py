"""The probe against a made-up device that follows the measured model, in real child processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ptxguard.commands.cost import price_on
from ptxguard.commands.probe import command
from ptxguard.errors import ConfigError, ToolError
from ptxguard.memcost import find_gpu
from ptxguard.probe.evidence import measured_frame

HERE = Path(__file__).parent


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs the command on the made-up device; returns exit status, result record and printed text."""

    def run(*arguments: str, **device: Any) -> tuple[int, dict[str, Any], str]:
        monkeypatch.setenv("PYTHONPATH", str(HERE))
        monkeypatch.setenv("FAKE_CUDA", json.dumps(device))
        file = tmp_path / "probe.json"
        options = ["--device-module", "fake_cuda", "--output-file", str(file), *arguments]
        outcome = CliRunner().invoke(command, options, catch_exceptions=True, standalone_mode=False)
        if outcome.exception is not None and not isinstance(outcome.exception, ToolError):
            raise outcome.exception
        text = str(outcome.exception or outcome.output)
        status = 2 if outcome.exception else outcome.return_value
        return status, json.loads(file.read_text()) if file.exists() else {}, text

    return run


def only(*names: str) -> list[str]:
    return [part for name in names for part in ("--only", name)]


def variants(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in result["variants"]}


def test_controls_follow_the_model(probe) -> None:
    status, result, text = probe(*only("frame.*"), "--frame-bytes", "1040", "--frame-bytes", "14608")
    assert status == 0
    measured = {name: item["verdict"]["measured_mib"] for name, item in variants(result).items()}
    assert measured == {"frame.0": 0, "frame.1040": 4, "frame.14608": 3502}  # as an H200 measured
    frame = variants(result)["frame.14608"]
    assert [item["stage"] for item in frame["stages"]] == [
        "before load",
        "after load",
        "after first launch",
        "after second launch",
        "after limit lowered",
        "after launch again",
        "after limit lowered again",
        "after unload",
    ]
    assert ["cuLaunchKernel", "CUDA_SUCCESS"] in frame["calls"]
    assert frame["verdict"]["held_after_lowering_mib"] == 0
    assert result["summary"]["given_back_by_lowering"] is True
    assert "3502.00" in text
    assert "3 first launches agree with the model within 2 MiB" in text


def test_a_device_off_the_model_is_exit_status_1(probe) -> None:
    status, result, text = probe(*only("frame.4096"), factor=1.5)
    assert status == 1
    assert result["summary"]["disagree"] == ["frame.4096"]
    assert "DISAGREES" in text


def test_native_copies_move_the_expected_data(probe) -> None:
    names = ("tensor_1d_tile.*.direct", "tensor_5d_tile.*.graph", "tensor_3d_im2col.cta.direct")
    names += ("tensor_4d_im2col.cta.direct", "tensor_5d_im2col.cta.direct", "bulk.multicast")
    status, result, _ = probe(*only(*names))
    assert status == 0
    for item in variants(result).values():
        assert all(item["data"]["arrived"]), item["name"]
        assert item["verdict"]["measured_mib"] == 0
        assert "native" in item["verdict"]["conclusion"]


def test_cluster_copies_call_the_driver_on_sm_120(probe) -> None:
    status, result, _ = probe(*only("tensor_2d_tile.*.direct", "tensor_2d_tile.cluster.graph"), sm="sm_120")
    assert status == 0
    found = variants(result)
    assert found["tensor_2d_tile.cluster.direct"]["verdict"]["measured_mib"] == 3502
    assert "calls the driver" in found["tensor_2d_tile.cluster.direct"]["verdict"]["conclusion"]
    assert found["tensor_2d_tile.cta.direct"]["verdict"]["measured_mib"] == 0
    graph = {
        item["stage"]: item["stack_limit_bytes"] for item in found["tensor_2d_tile.cluster.graph"]["stages"]
    }
    assert (graph["after capture"], graph["after instantiate"]) == (1024, 14608)


def test_wrong_data_is_exit_status_1(probe) -> None:
    status, result, text = probe(*only("tensor_2d_tile.cta.direct"), corrupt=True)
    assert status == 1
    assert result["summary"]["data_wrong"] == ["tensor_2d_tile.cta.direct"]
    assert "DATA WRONG" in text


def test_a_peer_destination_is_told_by_rank(probe) -> None:
    _, result, text = probe(*only("tensor_2d_tile.cta.peer_destination"))
    assert variants(result)["tensor_2d_tile.cta.peer_destination"]["data"]["arrived"] == [False, True]
    assert "data in CTA 1, completion in CTA 1" in text


def test_references_show_the_library_part_apart(probe) -> None:
    _, result, text = probe(*only("refer.nothing", "refer.printf", "refer.malloc"))
    loads = {name: item["verdict"]["load_mib"] for name, item in variants(result).items()}
    assert loads == {"refer.nothing": 0, "refer.printf": 64, "refer.malloc": 138}
    assert "loading took 64 MiB" in text
    assert {name: item["verdict"]["agrees"] for name, item in variants(result).items()} == {
        "refer.nothing": True,
        "refer.printf": None,
        "refer.malloc": None,
    }


def test_a_first_launch_waits_for_a_running_kernel(probe) -> None:
    _, result, _ = probe(*only("wait.8192"))
    verdict = variants(result)["wait.8192"]["verdict"]
    assert verdict["wait_ms"] > 200 > verdict["second_wait_ms"]


def test_no_room_for_the_launch_is_the_answer(probe) -> None:
    status, result, _ = probe(*only("short_memory*"), "--short-memory")
    (item,) = result["variants"]
    assert status == 0
    assert item["code"] == "CUDA_ERROR_OUT_OF_MEMORY"
    assert (result["summary"]["no_room"], result["summary"]["failed"]) == (["short_memory.14608"], [])
    assert "does not fit into 1000 MiB; a small kernel still runs" in item["verdict"]["conclusion"]


def test_a_target_without_bulk_copies_says_so(probe) -> None:
    status, result, _ = probe(*only("tensor_2d_tile.cta.direct"), sm="sm_80")
    assert status == 0
    assert result["summary"]["not_assembled"] == ["tensor_2d_tile.cta.direct"]


def test_integrated_cards_are_judged_by_the_median_of_five(probe) -> None:
    _, result, _ = probe(*only("frame.4096"), integrated=True)
    (item,) = result["variants"]
    assert len(item["repeats"]) == 4
    assert item["verdict"]["spread_mib"] == 0
    assert item["verdict"]["measured_mib"] == 792


@pytest.mark.parametrize(
    ("device", "sentence"),
    [
        ({"codes": {"cuInit": "CUDA_ERROR_NO_DEVICE"}}, "no NVIDIA GPU is visible here"),
        ({"codes": {"cuDevicePrimaryCtxRetain": "CUDA_ERROR_OUT_OF_MEMORY"}}, "no memory left for a context"),
        ({"free_mib": 524 + 264 + 100}, "only 100 MiB of the Made-up H200 are free"),
        ({"unusable": "the driver supports CUDA 12.4, older than …"}, "the driver supports CUDA 12.4"),
        ({"die_at": "cuInit"}, "was killed by SIGKILL"),
    ],
)
def test_what_cannot_work_is_one_sentence(probe, device: dict[str, Any], sentence: str) -> None:
    status, result, text = probe(*only("frame.512"), **device)
    assert (status, result) == (2, {})
    assert sentence in text
    assert "\n" not in text


def test_a_child_killed_half_way_leaves_its_facts_and_exit_2(probe) -> None:
    status, result, text = probe(*only("frame.512", "refer.nothing"), die_at="cuLaunchKernel")
    assert status == 2
    assert "2 of 2 variants did not finish: frame.512 was killed by SIGKILL" in text
    assert [item["stage"] for item in result["variants"][0]["stages"]] == ["before load", "after load"]


def test_a_child_that_hangs_is_ended(probe) -> None:
    status, _, text = probe(*only("frame.512"), "--timeout", "1.5", hang_at="cuLaunchKernel")
    assert status == 2
    assert "did not end within 1.5 s" in text
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert not [
        line for line in listing.splitlines() if "ptxguard.probe.child" in line and "fake_cuda" in line
    ]


def test_a_kernel_of_a_cubin_is_loaded_not_launched(probe, tmp_path: Path) -> None:
    cubin = tmp_path / "k.cubin"
    cubin.write_text(json.dumps({"frame": 4096, "need": 4096, "refers": "", "copy": []}))
    status, result, _ = probe("--kernel", f"{cubin}:k")
    (item,) = result["variants"]
    assert status == 0
    assert item["attributes"]["local_size_bytes"] == 4096
    assert "cuLaunchKernel" not in [name for name, _ in item["calls"]]
    assert item["verdict"]["predicted_mib"] == 792


def test_a_measurement_prices_its_own_card_and_no_other(probe) -> None:
    _, result, _ = probe(*only("frame.14608", "tensor_2d_tile.cluster.direct"), sm="sm_120")
    result["card"]["name"] = "NVIDIA GeForce RTX 5090"
    symbol = "__cuda_syscall_cp_async_bulk_tensor_2d_tile_unicast"
    ((_, own), (_, other)) = price_on(symbol, [find_gpu("RTX 5090"), find_gpu("GB10")], None, result)
    assert (own.basis, own.bytes_per_thread) == ("measured", 14608)
    assert "driver 580.1" in own.source
    assert other.basis == "public measurement"
    frame = measured_frame(result, find_gpu("RTX 5090"), 14608)
    assert frame is not None
    assert "3502 MiB at the first launch" in frame.source
    assert measured_frame(result, find_gpu("RTX 5090"), 4096) is None
    assert measured_frame(result, find_gpu("RTX 5080"), 14608) is None


def test_compare_finds_growth(probe, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    _, result, _ = probe(*only("frame.4096"))
    old.write_text(json.dumps(result))
    assert probe(*only("frame.4096"), "--compare", str(old))[0] == 0
    status, _, text = probe(*only("frame.4096"), "--compare", str(old), factor=1.1)
    assert status == 1
    assert "frame.4096: 792.0 -> 870.0 MiB" in text


def test_it_starts_with_click_alone() -> None:
    code = "import sys, ptxguard.commands.probe, ptxguard.probe.child, ptxguard.probe.cuda\n"
    code += (
        "print([m for m in sys.modules if m.split('.')[0] in ('lark', 'lz4', 'zstandard', 'numpy', 'cuda')])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert run.stdout.strip() == "[]"


def test_findings_choose_the_variants(probe, tmp_path: Path) -> None:
    file = tmp_path / "findings.json"
    syscall = "__cuda_syscall_cp_async_bulk_tensor_3d_im2col_unicast"
    file.write_text(json.dumps({"version": 1, "findings": [{"syscall": syscall}, {"syscall": None}]}))
    _, result, _ = probe("--from", str(file), sm="sm_120")
    assert sorted(variants(result)) == [
        "tensor_3d_im2col.cluster.direct",
        "tensor_3d_im2col.cluster.graph",
        "tensor_3d_im2col.cta.direct",
        "tensor_3d_im2col.cta.graph",
    ]
    for text in ('{"findings": []}', "[]", "no JSON"):
        file.write_text(text)
        with pytest.raises(ConfigError, match=r"findings\.json"):
            probe("--from", str(file))


def test_one_file_runs_without_the_package_and_without_click(tmp_path: Path) -> None:
    archive, result = tmp_path / "probe.pyz", tmp_path / "out.json"
    done = CliRunner().invoke(command, ["--write-file", str(archive)], standalone_mode=False)
    assert done.return_value == 0
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(HERE), "FAKE_CUDA": "{}"}
    options = ["--device-module", "fake_cuda", "--only", "frame.4096", "--output-file", str(result)]
    # -S: no site-packages, so neither click nor an installed ptxguard can help.
    run = subprocess.run(
        [sys.executable, "-S", str(archive), *options],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=tmp_path,
    )
    assert "792.00" in run.stdout
    (item,) = json.loads(result.read_text())["variants"]
    assert item["verdict"]["measured_mib"] == 792
