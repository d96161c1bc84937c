"""A finding of compiled code keeps its fingerprint while its counts and the name of its file change."""

from __future__ import annotations

from dataclasses import replace

from binkit import DATA
from ptxguard.binary.inventory import inventory
from ptxguard.compiled import find_all
from ptxguard.memcost import find_gpu


def findings(change=lambda kernels: kernels, path="lib-1.0.so"):
    (artifact,) = inventory(str(DATA / "copies.zstd.fatbin")).artifacts
    images = tuple(replace(image, kernels=change(image.kernels)) for image in artifact.images)
    return find_all([replace(artifact, path=path, images=images)], (find_gpu("RTX 5090"),), [])


def twice(kernels):
    return (*kernels, *(replace(kernel, name=f"{kernel.name}_again") for kernel in kernels))


def test_more_kernels_are_the_same_finding():
    one, two = findings(), findings(twice, "lib-2.0.so")
    assert [finding.fingerprint for finding in one] == [finding.fingerprint for finding in two]
    assert [finding.message for finding in one] != [finding.message for finding in two]
    assert len({finding.fingerprint for finding in one}) == len(one) > 0


def test_another_function_or_target_is_another_finding():
    def renamed(kernels):
        return tuple(
            replace(
                kernel,
                syscalls=tuple(
                    replace(call, name=call.name.replace("unicast", "multicast")) for call in kernel.syscalls
                ),
            )
            for kernel in kernels
        )

    before = {finding.fingerprint for finding in findings() if finding.code == "TMA101"}
    after = {finding.fingerprint for finding in findings(renamed) if finding.code == "TMA101"}
    assert before
    assert not before & after
