"""The calls in a source, with the names that the source has imported spelled out."""

import ast
from collections.abc import Iterator


def name_of(node: ast.AST) -> str:
    """`a.b.c` of a call of `a.b.c(...)`; an expression before a dot is a `_`."""
    if isinstance(node, ast.Call):
        return name_of(node.func)
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "_"


def calls_in(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call with its name, such as `subprocess.run`, whatever the source calls it."""
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                imported[alias.asname or alias.name] = alias.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            first, dot, rest = name_of(node).partition(".")
            yield f"{imported.get(first, first)}{dot}{rest}", node
