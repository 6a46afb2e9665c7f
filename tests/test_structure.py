"""The import direction of CONTRIBUTING.md, read from the source.

No import points up or goes in a circle. Imports inside functions count; those for type checkers only do not.
"""

import ast
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

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
