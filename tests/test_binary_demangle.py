"""Names of kernel families: read from the mangled name, whatever its length or return type."""

from __future__ import annotations

import pytest

from ptxguard.binary.demangle import demangle, family

ARGUMENTS = "N4cute5tupleIJiiiiEEE" * 80  # more than libstdc++ demangles


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("_Z6copies3Mapi", "copies"),
        ("plain_c", "plain_c"),
        (f"_ZN7cutlass13device_kernelI{ARGUMENTS}EEvT_", "cutlass::device_kernel"),
        (f"_Z19attention_forward_7I{ARGUMENTS}EvT_", "attention_forward_7"),
        ("_ZN12_GLOBAL__N_14workIfEEvT_", "(anonymous namespace)::work"),
        ("_ZN2te6detail52_GLOBAL__N__1234abcd_9_gemm_cu_0123abcd_45678_abcdef4loadIfEEvT_",
         "te::detail::(anonymous namespace)::load"),
        ("_ZN4norm3runIfLi0EEENSt9enable_ifIXeqT0_Li0EEE4typeEPT_", "norm::run"),  # not std::enable_if
        ("_ZL5localPf", "local"),
        ("_ZSt4swapIiEvRT_S1_", "std::swap"),
        ("_Zplus", "_Zplus"),
        ("_Z", "_Z"),
        ("_Z99cut", "_Z99cut"),
        ("void not::mangled<int>(float)", "not::mangled"),
    ],
)  # fmt: skip
def test_family(name, wanted):
    assert family(name) == wanted


def test_a_name_that_cannot_be_read_stays_as_it_is():
    assert demangle("_Z99cut") == "_Z99cut"
    assert demangle("kernel") == "kernel"
