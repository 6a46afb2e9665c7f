"""The import direction of CONTRIBUTING.md, read from the source.

No import points up or goes in a circle, and no module uses the private names of another. Imports inside functions
count; those for type checkers only do not.
"""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "fairseq_linformer"
STANDS_ON = {
    "modules": (),
    "models": ("modules",),
    "huggingface": ("modules",),
    "data": (),
    "checkpoints": ("models", "huggingface", "data"),
    "evaluation": ("checkpoints",),
    "analysis": ("checkpoints",),
    "benchmark": ("models", "data"),
    "training": ("evaluation", "benchmark"),
    "reproduction": ("analysis", "training"),
    "cli": ("reproduction",),
}
"""Each package may import these, and all that those import. Files next to the packages, such as ``files.py``, are for
everybody and import none of them."""
NEITHER = {"fairseq", "transformers"}
NOT_IMPORTED = {"modules": NEITHER, "huggingface": {"fairseq"}, "data": NEITHER}
OTHERS = {"_name", "_processes"}
"""Private names of other packages, which this one has too: a key of hydra's, the processes of a pool."""


def read_source() -> dict[str, ast.Module]:
    """The syntax tree of each module, by its name without that of the package."""
    paths = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
    return {name.removesuffix("__init__"): ast.parse(path.read_text()) for name, path in paths.items()}


SOURCE = read_source()
"""Names of packages end in a dot."""


def walk(node: ast.AST):
    """All nodes but those for type checkers."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING")):
            yield child
            yield from walk(child)


def imports(module: str, tree: ast.Module):
    """The full names that a module imports: of modules, or of things in modules."""
    parent = f"{PACKAGE.name}.{module}".rpartition(".")[0]
    for node in walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), parent)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def layer(module: str) -> str:
    """The package that a module is in; '' for a file next to the packages."""
    first = module.partition(".")[0]
    return first if first in STANDS_ON else ""


def allowed(package: str) -> set[str]:
    """The packages that one may import."""
    return {"", package}.union(*(allowed(other) for other in STANDS_ON.get(package, ())))


def find_violations(source: dict[str, ast.Module]) -> list[str]:
    """Imports that point up, and imports of packages that are not allowed."""
    found = []
    for module, tree in source.items():
        for name in imports(module, tree):
            first, _, rest = name.partition(".")
            is_up = first == PACKAGE.name and module and layer(rest) not in allowed(layer(module))
            if is_up or first in NOT_IMPORTED.get(layer(module), ()):
                found.append(f"{module} imports {name}")
    return found


def find_foreign_private_names(source: dict[str, ast.Module]) -> list[str]:
    """Private names of this package that are used in a module that does not define them."""

    def is_private(name: str) -> bool:
        return name.startswith("_") and not name.endswith("__") and name not in OTHERS

    own = {module: set(filter(is_private, defined_names(tree))) for module, tree in source.items()}
    every = set().union(*own.values())
    found = []
    for module, tree in source.items():
        used = {node.attr for node in walk(tree) if isinstance(node, ast.Attribute)}
        used |= {name.rpartition(".")[2] for name in imports(module, tree)}
        found += [f"{module} uses {name}" for name in sorted(used & every - own[module])]
    return found


def defined_names(tree: ast.Module):
    """Functions, classes, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr


def test_violations_are_found():
    text = {
        "config": "from .modules.c import _secret",
        "models.b": "from fairseq_linformer.modules.a import f\n_hidden = 1",
        "modules.a": "def f():\n    from ..models import b\n    b._hidden",
        "modules.c": "_secret = 1\nif TYPE_CHECKING:\n    from ..cli import main\nimport fairseq.data",
    }
    source = {name: ast.parse(text) for name, text in text.items()}
    assert find_violations(source) == [
        "config imports fairseq_linformer.modules.c._secret",
        "modules.a imports fairseq_linformer.models.b",
        "modules.c imports fairseq.data",
    ]
    assert find_foreign_private_names(source) == ["config uses _secret", "modules.a uses _hidden"]


def test_every_package_has_a_place():
    assert {layer(module) for module in SOURCE} - {""} == set(STANDS_ON)
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == set(STANDS_ON)


def test_imports_follow_the_direction():
    assert find_violations(SOURCE) == []


def test_no_import_cycles():
    paths = {f"{PACKAGE.name}.{module}".rstrip("."): module for module in SOURCE}
    edges = {}
    for path, module in paths.items():
        names = set(imports(module, SOURCE[module]))
        edges[path] = paths.keys() & (names | {name.rpartition(".")[0] for name in names})
        edges[path] -= {path, path.rpartition(".")[0], PACKAGE.name}  # ``from . import name`` imports the file ``name``
    TopologicalSorter(edges).prepare()  # raises CycleError


def test_the_plugin_loads_few_modules():
    script = "import sys, fairseq_linformer.models; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert len([name for name in loaded if name.partition(".")[0] == PACKAGE.name]) <= 30


@pytest.mark.slow
def test_private_names_are_used_in_their_module_only():
    assert find_foreign_private_names(SOURCE) == []
