"""How a kernel is declared and launched, with the cluster size that follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from program import worst

if TYPE_CHECKING:
    from random import Random


@dataclass(frozen=True)
class KernelShape:
    """Declaration and launches of one kernel.

    Attributes:
        top: declarations for a header, before the kernel.
        before: text in front of `__global__` (template line), and behind it (`attribute`).
        attribute: text between `__global__` and `void`, or between `void` and the name.
        forward: declaration in front of the definition, or "".
        host: host code behind the kernel.
        cluster: one, larger or undecided.
        in_sight: whether it has launches, all of them here.
    """

    top: str
    before: str
    attribute: str
    forward: str
    host: str
    cluster: str
    in_sight: bool


PARAMETERS = "const float* src, const void* map, uint32_t given, int n, const uint32_t* table, float** boxes"
ARGUMENTS = "src, map, given, n, table, boxes"

# (declarations, attribute, verdict); `@` is the kernel's name.
_ATTRIBUTES = (
    ("", "__cluster_dims__(2, 1, 1)", "larger"),
    ("", "__cluster_dims__(1, 1, 1)", "one"),
    ("", "__cluster_dims__(1, 2)", "larger"),
    ("constexpr int @_width = 2;\n", "__cluster_dims__(@_width, 1, 1)", "larger"),
    ("constexpr int @_width = 4;\n", "__cluster_dims__(@_width / 4, 1, 1)", "one"),
    ("#define @_WIDTH 2\n", "__cluster_dims__(@_WIDTH, 1, 1)", "larger"),
    ("struct @_traits { static constexpr int width = 4; };\n", "__cluster_dims__(@_traits::width, 1, 1)", "larger"),
    ("enum { @_width = 2 };\n", "__cluster_dims__(@_width, 1, 1)", "larger"),
    ("#define @_CLUSTER(x) __cluster_dims__(x, 1, 1)\n", "@_CLUSTER(2)", "larger"),
    ("", "__launch_bounds__(256, 1) __cluster_dims__(2, 1, 1)", "larger"),
    ("", "__attribute__((cluster_dims(2, 1, 1)))", "larger"),
)  # fmt: skip
_PLAIN_ATTRIBUTES = (
    "",
    "",
    "",
    "__launch_bounds__(256)",
    "__launch_bounds__(256, 1)",
    "__launch_bounds__(128, 1, 2)",
)

# (declarations, statements, verdict); `@` is a fresh name, `{k}` the kernel with its template arguments.
_PLAIN = (
    ("", "{k}<<<n, 256>>>({a});", "one"),
    ("", "{k}<<<dim3(n), dim3(128), 4096, nullptr>>>({a});", "one"),
    ("", "auto @ = {k};\n@<<<1, 128>>>({a});", "one"),
    ("", ("auto* @ = &{k};\ncudaFuncSetAttribute(@, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);\n"
     "(*@)<<<1, 128, 65536>>>({a});"), "one"),
    ("", ("void* args[] = {&src, &map, &given, &n, &table, &boxes};\n"
     "cudaLaunchKernel({k}, dim3(n), dim3(128), args, 0, nullptr);"), "one"),
    ("", ("void* args[] = {&src, &map, &given, &n, &table, &boxes};\n"
     "cudaLaunchCooperativeKernel((void*){k}, dim3(n), dim3(128), args, 0, nullptr);"), "one"),
    ("template <typename F, typename... A> inline void @(F f, int n, A... a) { f<<<n, 128>>>(a...); }\n",
     "@({k}, n, {a});", "one"),
    ("template <auto F, typename... A> inline void @(int n, A... a) { F<<<n, 128>>>(a...); }\n",
     "@<{k}>(n, {a});", "one"),
    ("#define @(kernel, grid, ...) kernel<<<grid, 128>>>(__VA_ARGS__)\n", "@(({k}), n, {a});", "one"),
    ("#define @(kernel, grid, ...) do { kernel<<<grid, 128>>>(__VA_ARGS__); } while (0)\n", "@(({k}), n, {a});",
     "one"),
    ("", "auto @ = [&](auto f) { f<<<n, 128>>>({a}); };\n@({k});", "one"),
)  # fmt: skip

_CONFIG = "cudaLaunchConfig_t @{};\n@.gridDim = dim3(n);\n@.blockDim = dim3(128);\n"
_ATTRS = "cudaLaunchAttribute @_a[1];\n"
_USED = "@.attrs = @_a;\n@.numAttrs = 1;\ncudaLaunchKernelEx(&@, {k}, {a});"
_ID = "@_a[0].id = cudaLaunchAttributeClusterDimension;\n"


def _dims(x: str, y: str = "1") -> str:
    return (
        f"{_ID}@_a[0].val.clusterDim.x = {x};\n@_a[0].val.clusterDim.y = {y};\n@_a[0].val.clusterDim.z = 1;\n"
    )


_EXTENDED = (
    ("", f"{_CONFIG}cudaLaunchKernelEx(&@, {{k}}, {{a}});", "one"),
    ("", f"{_CONFIG}{_ATTRS}{_dims('2')}{_USED}", "larger"),
    ("", f"{_CONFIG}{_ATTRS}{_dims('1')}{_USED}", "one"),
    ("", f"{_CONFIG}{_ATTRS}{_dims('1', '4')}{_USED}", "larger"),
    ("", f"{_CONFIG}{_ATTRS}{_dims('n')}{_USED}", "undecided"),
    ("constexpr unsigned @_size = 2;\n", f"{_CONFIG}{_ATTRS}{_dims('@_size')}{_USED}", "larger"),
    ("", f"{_CONFIG}{_ATTRS}@_a[0].id = cudaLaunchAttributeCooperative;\n@_a[0].val.cooperative = 1;\n{_USED}", "one"),
    ("", (f"{_CONFIG}{_ATTRS}@_a[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;\n"
     f"@_a[0].val.programmaticStreamSerializationAllowed = 1;\n{_USED}"), "one"),
    ("", (f"{_CONFIG}{_ATTRS}@_a[0].id = cudaLaunchAttributePreferredClusterDimension;\n"
     f"@_a[0].val.preferredClusterDim.x = 4;\n@_a[0].val.preferredClusterDim.y = 1;\n"
     f"@_a[0].val.preferredClusterDim.z = 1;\n{_USED}"), "larger"),
    ("", (f"{_CONFIG}{_ATTRS}if (n > 1) {{\n{_dims('n')}@.attrs = @_a;\n@.numAttrs = 1;\n}}\n"
     "cudaLaunchKernelEx(&@, {k}, {a});"), "undecided"),
    (("inline cudaLaunchAttribute @_make(int size) {\n  cudaLaunchAttribute a;\n"
     "  a.id = cudaLaunchAttributeClusterDimension;\n  a.val.clusterDim = {(unsigned)size, 1, 1};\n  return a;\n}\n"),
     f"{_CONFIG}cudaLaunchAttribute @_a[1] = {{{{@_make(2)}}}};\n{_USED}", "larger"),
    (("inline void @_fill(cudaLaunchAttribute& a, int size) {\n"
     "  a.id = cudaLaunchAttributeClusterDimension;\n  a.val.clusterDim.x = size;\n"
     "  a.val.clusterDim.y = 1;\n  a.val.clusterDim.z = 1;\n}\n"),
     f"{_CONFIG}{_ATTRS}@_fill(@_a[0], 2);\n{_USED}", "larger"),
    (("inline void @_fill(cudaLaunchAttribute* a, int size) {\n"
     "  a->id = cudaLaunchAttributeClusterDimension;\n  a->val.clusterDim.x = size;\n"
     "  a->val.clusterDim.y = 1;\n  a->val.clusterDim.z = 1;\n}\n"),
     f"{_CONFIG}{_ATTRS}@_fill(@_a, 1);\n{_USED}", "one"),
    (("#define @_SET(a, size) do { (a).id = cudaLaunchAttributeClusterDimension; "
     "(a).val.clusterDim.x = (size); (a).val.clusterDim.y = 1; (a).val.clusterDim.z = 1; } while (0)\n"),
     f"{_CONFIG}{_ATTRS}@_SET(@_a[0], 2);\n{_USED}", "larger"),
    (("template <typename... P, typename... A> inline void @_run(void (*f)(P...), int n, unsigned size, A... a) {\n"
     "  cudaLaunchConfig_t c = {};\n  c.gridDim = n;\n  c.blockDim = 128;\n  cudaLaunchAttribute t[1];\n"
     "  t[0].id = cudaLaunchAttributeClusterDimension;\n  t[0].val.clusterDim.x = size;\n"
     "  t[0].val.clusterDim.y = 1;\n  t[0].val.clusterDim.z = 1;\n  c.attrs = t;\n  c.numAttrs = 1;\n"
     "  cudaLaunchKernelEx(&c, f, a...);\n}\n"), "@_run({k}, n, 2u, {a});", "larger"),
    (("template <typename... P, typename... A> inline void @_run(void (*f)(P...), int n, unsigned size, A... a) {\n"
     "  cudaLaunchConfig_t c = {};\n  c.gridDim = n;\n  c.blockDim = 128;\n  cudaLaunchAttribute t[1];\n"
     "  t[0].id = cudaLaunchAttributeClusterDimension;\n  t[0].val.clusterDim.x = size;\n"
     "  t[0].val.clusterDim.y = 1;\n  t[0].val.clusterDim.z = 1;\n  c.attrs = t;\n"
     "  c.numAttrs = size > 1 ? 1 : 0;\n  cudaLaunchKernelEx(&c, f, a...);\n}\n"),
     "@_run({k}, n, 1u, {a});", "one"),
    ("", f"{_CONFIG}cudaLaunchAttribute @_a[1] = {{}};\n{_ID}@_a[0].val.clusterDim = {{2, 1, 1}};\n{_USED}", "larger"),
)  # fmt: skip


def random_shape(rng: Random, name: str) -> KernelShape:
    """Attributes and zero to two launches of a kernel."""
    top, before, attribute, fixed, arguments = _attribute(rng, name)
    forward = ""
    position = rng.choice(("%s void", "void %s"))
    if attribute and fixed is not None and not before and rng.random() < 0.25:
        forward = f"__global__ {position % attribute} {name}({PARAMETERS});\n"
        attribute = ""
    header = position % attribute if attribute else "void"
    count = rng.choices((0, 1, 2), (1, 8, 2))[0]
    tops, host, verdicts = [top], [], []
    for number in range(count):
        choices = _PLAIN if fixed is not None or rng.random() < 0.5 else _EXTENDED
        declared, text, verdict = rng.choice(choices)
        launch = f"{name}_go{number}"
        kernel = f"{name}{arguments}"
        text = text.replace("@", launch).replace("{k}", kernel).replace("{a}", ARGUMENTS)
        tops.append(declared.replace("@", launch))
        host.append(_host(rng, f"{name}_host{number}", text))
        verdicts.append(verdict if fixed is None else fixed)
    if not count and arguments:
        host.append(f"template __global__ void {name}{arguments}({PARAMETERS});\n")
    cluster = worst(verdicts, ("larger", "undecided", "one"), fixed or "undecided")
    return KernelShape("".join(tops), before, header, forward, "".join(host), cluster, in_sight=count > 0)


def _attribute(rng: Random, name: str) -> tuple[str, str, str, str | None, str]:
    """(declarations, template line, attribute, verdict that it fixes, template arguments)."""
    choice = rng.random()
    if choice < 0.25:
        top, attribute, verdict = rng.choice(_ATTRIBUTES)
        return top.replace("@", name), "", attribute.replace("@", name), verdict, ""
    if choice < 0.35:
        size = rng.choice((1, 2))
        attribute = rng.choice(("__cluster_dims__(C, 1, 1)", "__cluster_dims__(C)"))
        return "", "template <int C>\n", attribute, "larger" if size > 1 else "one", f"<{size}>"
    if choice < 0.5:
        return "", "template <typename T, int S>\n", rng.choice(_PLAIN_ATTRIBUTES), None, "<float, 4>"
    return "", "", rng.choice(_PLAIN_ATTRIBUTES), None, ""


def _host(rng: Random, name: str, text: str) -> str:
    body = "".join(f"  {line}\n" for line in text.split("\n"))
    kind = rng.choice(("plain", "plain", "namespace", "static", "class"))
    head = f"void {name}({PARAMETERS})"
    if kind == "namespace":
        return f"namespace {name}_ns {{\n{head} {{\n{body}}}\n}}  // namespace\n"
    if kind == "class":
        return f"struct {name}_c {{\n  {head} {{\n{body}  }}\n}};\n"
    return f"{'static ' if kind == 'static' else ''}{head} {{\n{body}}}\n"
