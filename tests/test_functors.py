"""Calls of an object with a call operator: temporaries, variables, objects that are passed on."""

from __future__ import annotations

import pytest

from sourcekit import copy, look

LOAD = (
    "struct Load { __device__ void operator()(unsigned dst, const void *src, unsigned bar) const {\n"
    f"  {copy()}\n}} }};\n"
    "struct Other { __device__ void operator()(unsigned dst, const void *src, unsigned bar) const { } };\n"
)


@pytest.mark.parametrize(
    ("body", "kernels"),
    [
        pytest.param("Load{}(1, 0, 2);", ["k"], id="temporary"),
        pytest.param("Load f; f(1, 0, 2);", ["k"], id="variable"),
        pytest.param("const Load f{}; f(1, 0, 2);", ["k"], id="variable with braces"),
        pytest.param("Load f = Load{}; f(1, 0, 2);", ["k"], id="copied variable"),
        pytest.param("auto f = Load{}; f(1, 0, 2);", ["k"], id="deduced variable"),
        pytest.param("auto f = Load(); f(1, 0, 2);", ["k"], id="deduced variable with parentheses"),
        pytest.param("Load f; x.f(1, 0, 2);", [], id="member of that name"),
        pytest.param("Load f;", [], id="never called"),
        pytest.param("Other f; f(1, 0, 2); Other{}(1, 0, 2);", [], id="another class"),
        pytest.param("Other o; o(1, 0, 2); Load f; f(1, 0, 2);", ["k"], id="two classes"),
    ],
)
def test_kernels_reached(tmp_path, body, kernels):
    site = look(tmp_path, LOAD + f"__global__ void k(const void *src) {{ {body} }}\n").only
    assert [kernel.name for kernel in site.kernels] == kernels


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("run(Load{});", id="temporary"),
        pytest.param("run(Load());", id="temporary with parentheses"),
        pytest.param("Load f; run(f);", id="variable"),
        pytest.param("auto f = Load{}; run(f);", id="deduced variable"),
        pytest.param("run<Load>();", id="type"),
        pytest.param("Load f; auto g = f; g(1, 0, 2);", id="copy"),
    ],
)
def test_an_object_passed_on_leaves_the_cluster_undecided(tmp_path, body):
    text = LOAD + (
        "__global__ void k(const void *src) { Load{}(1, 0, 2); }\n"
        f"__global__ void far(const void *src) {{ {body} }}\n"
        "void host() { k<<<1, 1>>>(0); }\n"
    )
    site = look(tmp_path, text).only
    assert site.cluster.verdict == "undecided"
    assert "passed on" in site.cluster.reason
