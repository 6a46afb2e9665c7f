"""The import direction of CONTRIBUTING.md, read from the source.

No import points up or goes in a circle, and no module uses the private names of another. Imports inside functions
count; those for type checkers only do not.
"""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

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
    "linearization": ("training",),
    "reproduction": ("analysis", "benchmark", "linearization"),
    "cli": ("reproduction", "linearization"),
}
"""Each package may import these, and all that those import. Files next to the packages, such as ``files.py``, are for
everybody and import none of them."""
NEITHER = ("fairseq", "transformers")
NOT_IMPORTED = {"modules": NEITHER, "huggingface": ("fairseq",), "data": NEITHER}

OTHERS = ("_name", "_processes")
"""Private names of other packages, which this one has too: a key of hydra's, the processes of a pool."""


class Import(NamedTuple):
    """``module`` without the name of this package, '' for the package itself; or, if ``external``, another package."""

    module: str
    name: str | None
    line: int
    external: bool = False


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").removesuffix(".")


@cache
def trees() -> dict[str, ast.Module]:
    return {
        module_name(path): ast.parse(path.read_text(encoding="utf-8"), str(path))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def is_package(module: str) -> bool:
    return (PACKAGE.joinpath(*module.split(".")) / "__init__.py").is_file()


def layer(module: str) -> str:
    """The package that a module is in; '' for a file next to the packages."""
    first = module.split(".")[0]
    return first if first in STANDS_ON else ""


def walk(node: ast.AST):
    """All nodes but those for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        yield child
        yield from walk(child)


def imported(base: str, name: str | None, line: int) -> Import:
    """``from base import name``, where ``base`` begins with the package or another one."""
    first, _, rest = base.partition(".")
    if first != PACKAGE.name:
        return Import(base, name, line, external=True)
    module = f"{rest}.{name}" if rest and name else rest or name or ""
    if name and module not in trees():  # something in ``base``
        return Import(rest, name, line)
    return Import(module, None, line)


@cache
def imports(module: str) -> list[Import]:
    found = []
    package = [PACKAGE.name, *module.split(".")] if is_package(module) else [PACKAGE.name, *module.split(".")[:-1]]
    for node in walk(trees()[module]):
        if isinstance(node, ast.Import):
            found += [imported(alias.name, None, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len([p for p in package if p]) - node.level + 1] if node.level else []
            path = ".".join([*filter(None, base), *filter(None, [node.module])])
            found += [imported(path, alias.name, node.lineno) for alias in node.names]
    return found


@cache
def below(package: str) -> frozenset[str]:
    """All that a package may import, directly or not."""
    return frozenset(STANDS_ON[package]).union(*(below(each) for each in STANDS_ON[package]))


def upward() -> list[str]:
    found = []
    for module in trees():
        mine = layer(module)
        allowed = {"", mine} | (below(mine) if mine else set())
        for each in imports(module):
            if module and not each.external and layer(each.module) not in allowed:
                found.append(f"{module}:{each.line} imports {each.module}")
    return found


def edges() -> dict[str, set[str]]:
    """The modules that each one imports."""
    return {module: {each.module for each in imports(module) if not each.external} - {module} for module in trees()}


def circle(edges: dict[str, set[str]]) -> list[str]:
    """Modules that import each other, the first one again at the end; empty if there are none."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def own_names(tree: ast.Module) -> set[str]:
    """What a module defines: functions, classes, variables and attributes."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return names


def foreign_private_names() -> list[str]:
    """Private names of this package that are used in a module that does not define them."""
    own = {module: {name for name in own_names(tree) if private(name)} for module, tree in trees().items()}
    every = set().union(*own.values())
    found = []
    for module, tree in trees().items():
        used = [
            (node.attr, node.lineno) for node in walk(tree) if isinstance(node, ast.Attribute) and node.attr in every
        ]
        used += [(each.name, each.line) for each in imports(module) if not each.external and private(each.name or "")]
        for name, line in used:
            if name not in own[module] and name not in OTHERS:
                found.append(f"{module}:{line} uses {name}")
    return found


@pytest.mark.slow
def test_finds_the_source():
    packages = {path.name for path in PACKAGE.iterdir() if is_package(path.name)}
    assert packages == set(STANDS_ON) == {layer(module) for module in trees()} - {""}
    names = [each.module for each in imports("reproduction.page")]
    assert {"files", "reproduction.result", "reproduction.display", "inspect"} <= {*names}
    in_a_function = [each for each in imports("cli.reproduce") if each.module == "reproduction.page"]
    assert [each.name for each in in_a_function] == ["write_pages"]
    assert below("models") == {"modules"}
    assert "cli" not in below("reproduction") and "reproduction" in below("cli")


def test_finds_a_violation(monkeypatch):
    source = {
        "": "",
        "config": "from .modules.c import _secret",
        "models": "",
        "models.b": "from fairseq_linformer.modules.a import f\n_hidden = 1",
        "modules": "",
        "modules.a": "def f():\n    from ..models import b\n    b._hidden",
        "modules.c": "_secret = 1\nif TYPE_CHECKING:\n    from ..cli import main\nimport fairseq.data",
    }
    monkeypatch.setitem(globals(), "trees", lambda: {name: ast.parse(text) for name, text in source.items()})
    imports.cache_clear()
    assert upward() == ["config:1 imports modules.c", "modules.a:2 imports models.b"]
    assert foreign_private_names() == ["config:1 uses _secret", "modules.a:3 uses _hidden"]
    assert set(circle(edges())) == {"modules.a", "models.b"}
    assert imports("modules.c") == [Import("fairseq.data", None, 4, external=True)]
    imports.cache_clear()


def test_imports_follow_the_direction():
    assert upward() == []


def test_no_import_cycles():
    assert circle(edges()) == []


@pytest.mark.slow
def test_private_names_are_used_in_their_module_only():
    assert foreign_private_names() == []


@pytest.mark.parametrize("package", NOT_IMPORTED)
def test_packages_without_external_dependencies(package):
    found = [
        (module, each.module)
        for module in trees()
        if layer(module) == package
        for each in imports(module)
        if each.external and each.module.split(".")[0] in NOT_IMPORTED[package]
    ]
    assert found == []
