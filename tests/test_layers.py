"""The layout holds: modules import only layers above their own, never in a circle, and stay short."""

from __future__ import annotations

import ast
import graphlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# From the facts up to the commands; a module may import its own layer and those before it. A name that ends
# with a dot stands for a whole package. `source.` and `binary.` never see each other.
LAYERS = (
    ("__init__",),
    ("errors",),
    ("location",),
    ("arch",),
    ("helper",),
    ("globs", "directive", "config"),
    ("model",),
    ("finding",),
    ("otherrules",),
    ("memcost",),
    ("occupancy",),
    ("memory",),
    ("pytest_plugin",),
    ("forms",),
    ("semantics", "asmnames"),
    ("flags",),
    ("cmake",),
    ("builds",),
    ("source.", "binary."),
    ("cache",),
    ("effects",),
    ("fix.spelling",),
    ("fix.switch",),
    ("fix.guarded",),
    ("fix.choice",),
    ("baseline", "changes", "suppress", "threshold"),
    ("rule",),
    ("rules.",),
    ("engine",),
    ("compiledptx", "advisories"),
    ("compiled",),
    ("crosscheck", "compare"),
    ("fix.",),
    ("verify.",),
    ("api",),
    ("probe.",),
    ("output.",),
    ("store.",),
    ("lsp.",),
    ("web.",),
    ("commands.",),
    ("cli",),
    ("__main__",),
)


def modules():
    """Dotted name under `ptxguard` -> file, for lint/, rules/ and web/."""
    found = {}
    for folder, prefix in (("lint", ""), ("rules", "rules."), ("web", "web.")):
        for path in sorted((ROOT / folder).rglob("*.py")):
            found[prefix + ".".join(path.relative_to(ROOT / folder).with_suffix("").parts)] = path
    return found


MODULES = modules()


def imports_at_run_time(path):
    """Names under `ptxguard` that a module imports, lazily or not, less what only the type checker reads."""
    names = set()
    pending = [ast.parse(path.read_text("utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            pending.extend(node.orelse)
            continue
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} line {node.lineno}: relative import"
            names.add(node.module or "")
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        pending.extend(ast.iter_child_nodes(node))
    ours = {name.partition(".")[2] or "__init__" for name in names if name.split(".")[0] == "ptxguard"}
    return {name for name in ours if name in MODULES}


IMPORTS = {name: imports_at_run_time(path) for name, path in MODULES.items()}


def layer_of(module):
    """Number of the layer and the name in it that stands for the module."""
    for number, names in enumerate(LAYERS):
        for name in names:
            if module == name or (name.endswith(".") and module.startswith(name)):
                return number, name
    pytest.fail(f"{module} belongs to no layer; give it a place in LAYERS")


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_layers_above_its_own(module):
    number, name = layer_of(module)
    for imported in IMPORTS[module]:
        other, other_name = layer_of(imported)
        assert other <= number, f"{module} imports {imported}"
        assert other < number or name == other_name, f"{module} imports {imported}"


def test_no_circle_of_imports():
    order = graphlib.TopologicalSorter(IMPORTS)
    assert set(order.static_order()) == set(MODULES)


FILES = [*MODULES.values(), *sorted((ROOT / "tests").glob("*.py"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_module_is_longer_than_400_lines(path):
    assert len(path.read_text("utf-8").splitlines()) <= 400


@pytest.mark.parametrize("path", MODULES.values(), ids=MODULES.keys())
def test_every_module_opens_with_one_sentence(path):
    first = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split("\n")[0]
    assert first.endswith(".")
