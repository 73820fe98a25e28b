"""Nothing in the package writes files but `output_files`: no link is followed, nothing is half."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.called_functions import calls_in, name_of

ROOT = Path(__file__).parents[2]
LIBRARIES = {
    "os": "open replace rename renames remove unlink mkdir makedirs rmdir removedirs symlink link "
    "truncate mkfifo",
    "shutil": "copy copy2 copyfile copyfileobj copytree move rmtree make_archive",
    "tempfile": "mkdtemp mkstemp TemporaryDirectory TemporaryFile NamedTemporaryFile",
    "optuna": "create_study",
}
"""Functions that change files."""
METHODS = {
    *("write_text", "write_bytes", "touch", "symlink_to", "hardlink_to", "unlink", "rmdir"),
    *("rename", "mkdir", "chmod", "tofile"),
}
"""Methods that change files, of paths above all."""
REMOVING = {
    *("replace", "rename", "renames", "move", "remove", "unlink", "rmdir", "removedirs"),
    "rmtree",
}
"""What takes a file away, or puts another in its place."""
SAVES = {
    *("save", "savez", "savez_compressed", "savetxt", "savefig", "dump", "ZipFile", "open"),
    *("write_image", "write_html", "to_csv", "memmap", "open_memmap"),
}
"""Those that may be given an open file, or may be asked to read."""
_NAMES = "|".join([*METHODS, *SAVES, *" ".join(LIBRARIES.values()).split()])
WORDS = re.compile(rf"\b({_NAMES})(\(| as )")

FRESH = "in a folder that was made in this process a moment ago, and that no file names"
NEW = "makes a folder that the user names; what is in it is written by output_files"
ALLOWED: dict[tuple[str, str], str] = {
    ("agents/policies/policy_file.py", "open"): "reads, and does not wait for a pipe",
    ("agents/policies/policy_file.py", "write_bytes"): "knows no output_files; FRESH or a script",
    ("workflow_rl/cage2/scoring/submission/files/evaluation.py", "open"): "a script to hand in",
    ("workflow_rl/cage4/scoring/protocol.py", "TemporaryFile"): "has no name",
    ("workflow_rl/cage4/scoring/protocol.py", "copyfileobj"): "into a file of output_files",
    ("workflow_rl/cage4/scoring/protocol.py", "mkdir"): NEW,
    ("workflow_rl/collection/local_pool.py", "open"): "the null device",
    ("workflow_rl/workflows/commands/search_workflow.py", "mkdir"): NEW,
    ("workflow_rl/commands/verify.py", "TemporaryDirectory"): FRESH,
    ("workflow_rl/measuring/benchmark.py", "TemporaryDirectory"): FRESH,
    ("workflow_rl/runs/export.py", "copy"): FRESH,
    ("workflow_rl/runs/export.py", "write_text"): FRESH,
    ("workflow_rl/runs/checkpoint.py", "save"): "returns bytes",
    ("workflow_rl/evaluation/evaluate.py", "TemporaryDirectory"): FRESH,
    ("workflow_rl/runs/export.py", "TemporaryDirectory"): FRESH,
    ("workflow_rl/runs/export.py", "make_archive"): FRESH,
    ("workflow_rl/runs/export.py", "mkdir"): NEW,
    ("workflow_rl/runs/run_dir.py", "mkdir"): NEW,
    ("workflow_rl/studies/search.py", "create_study"): "`study_database` refuses links before",
    ("workflow_rl/terminal.py", "open"): "the null device",
}


def ways_to_write(source: str) -> Iterator[str]:
    """The names of calls that write a file, but to one that `output_files` has opened."""
    if not WORDS.search(source):  # Parsing takes most of the time.
        return
    tree = ast.parse(source)
    opened = {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.With)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name)
        and name_of(item.context_expr).partition(".")[0] in ("replacing", "appending")
    }
    in_memory = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and name_of(node.value).endswith("BytesIO")
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for whole, node in calls_in(tree):
        library, _, name = whole.rpartition(".")
        if library == "workflow_rl.output_files":
            continue
        given = [*node.args, *(one for one in node.keywords if one.arg == "target")]
        n_given = len(node.args) + len(node.keywords)
        moves = name == "replace" and len(given) == 1 and library != "dataclasses"
        if (
            name in LIBRARIES.get(library, "").split()
            or (library and (name in METHODS or (moves and len(given) == n_given)))
            or (
                name in SAVES and not _names(node) & (opened | in_memory) and _may_write(name, node)
            )
        ):
            yield name


def _names(call: ast.Call) -> set[str]:
    return {one.id for one in ast.walk(call) if isinstance(one, ast.Name)}


def _may_write(name: str, call: ast.Call) -> bool:
    if name == "save" and name_of(call).partition(".")[0] in ("self", "learner", "run", "training"):
        return False  # Of a run's folder.
    if name not in ("open", "ZipFile"):
        return True
    modes = [one.value for one in ast.walk(call) if isinstance(one, ast.Constant)]
    return any(isinstance(one, str) and set(one) & set("wax+") and len(one) < 4 for one in modes)


FILES = sorted([*ROOT.glob("agents/**/*.py"), *ROOT.glob("workflow_rl/**/*.py")])


def test_nothing_else_writes():
    found = Counter(
        (str(path.relative_to(ROOT)), name)
        for path in FILES
        if path.name != "output_files.py"
        for name in ways_to_write(path.read_text(encoding="utf-8"))
    )
    assert found.keys() - ALLOWED.keys() == set(), "write with workflow_rl/output_files.py"
    assert ALLOWED.keys() - found.keys() == set(), "these write no more"


def test_one_function_moves_and_one_removes():
    """In `output_files` itself, which the test above leaves out; and in the scripts."""
    source = (ROOT / "workflow_rl" / "output_files.py").read_text(encoding="utf-8")
    found = {
        (function.name, name)
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef)
        for name in {*ways_to_write(ast.unparse(function))} & REMOVING
    }
    assert found == {("put", "replace"), ("remove_own", "rmdir"), ("remove_own", "unlink")}
    of_scripts = {
        (path.name, name)
        for path in ROOT.glob("scripts/**/*.py")
        for name in {*ways_to_write(path.read_text(encoding="utf-8"))} & REMOVING
    }
    assert of_scripts == {("compare.py", "unlink")}  # Memory of processes that it has started.


@pytest.mark.parametrize(
    "source",
    [
        *("open(path, 'w')", "path.open('ab')", "open(path, mode='r+')", "path.write_text('')"),
        *("np.savez(path, a=1)", "torch.save(one, path)", "shutil.copy(a, b)", "path.mkdir()"),
        *("os.replace(a, b)", "path.replace(other)", "figure.savefig(path)", "path.touch()"),
        *("shutil.rmtree(a)", "import shutil as s\ns.rmtree(a)", "path.replace(target=b)"),
        *("from os import unlink as gone\ngone(a)", "shutil.move(a, b)", "Path.unlink(path)"),
        *("zipfile.ZipFile(path, 'w')", "json.dump(one, path.open('w'))", "os.symlink(a, b)"),
    ],
)
def test_ways_to_write_are_found(source):
    assert list(ways_to_write(source))
