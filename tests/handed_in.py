"""Agents that are handed in, from which a file is taken away, or in which one is damaged."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

# A submission imports this much of CybORG.
CYBORG = """
import importlib, importlib.util, json, sys, types
from pathlib import Path

class Wrapper:
    def __init__(self, env):
        pass

for name in ("CybORG", "CybORG.Agents", "CybORG.Agents.Wrappers"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["CybORG.Agents"].BaseAgent = type("BaseAgent", (), {"__init__": Wrapper.__init__})
sys.modules["CybORG.Agents.Wrappers"].BlueEnterpriseWrapper = Wrapper
"""
LOAD = (
    CYBORG
    + """
module, used, *sources = sys.argv[1:]
for source in sources:
    before = set(sys.modules)
    sys.path.insert(0, source)
    importlib.invalidate_caches()
    try:
        eval(used, vars(importlib.import_module(module)))
        print(json.dumps(None))
    except Exception as error:
        print(json.dumps(f"{type(error).__name__}: {error}"))
    sys.path[:] = [place for place in sys.path if not place.startswith(source)]
    for name in set(sys.modules) - before:
        if name.startswith((module, "acting")):
            del sys.modules[name]
"""
)


def require_whole_to_load(folder: Path, module: str, used: str) -> None:
    """Check that a folder loads as it is, and that folders and zips of it raise what is wrong in
    one line, which names the file, if one is missing or was damaged.

    used: an expression that makes what plays, in the module.
    """
    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    listed = [name for name in files if name.startswith("acting") or name.endswith(".npz")]
    assert len(listed) > 20
    names, sources = [""], [folder]
    for name in [*listed, "files.sha256"]:
        middle = len(files[name]) // 2
        flipped = files[name][middle : middle + 1].translate(bytes(range(1, 256)) + b"\0")
        damaged = {name: files[name][:middle] + flipped + files[name][middle + 1 :]}
        missing = {other: files[other] for other in files if other != name}
        # What checks the others is checked by no one.
        for content in [missing] + [{**files, **damaged}] * (name != "acting_handed_in.py"):
            names.append(name)
            sources.append(packed(content, folder.parent / f"{folder.name}-{len(names)}"))
    command = [sys.executable, "-B", "-c", LOAD, module, used, *map(str, sources)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    answers = [json.loads(line) for line in said.stdout.splitlines()]
    assert len(answers) == len(sources)
    assert answers[0] is None
    for source, name, answer in zip(sources[1:], names[1:], answers[1:], strict=True):
        assert answer is not None, (source, name)
        assert "\n" not in answer
        # A damaged list blames a file that it names.
        assert name.removesuffix(".py") in answer or name == "files.sha256", (name, answer)


def packed(files: dict[str, bytes], place: Path) -> Path:
    """Write files into a folder, or for every other place into a zip."""
    if int(place.name.rpartition("-")[2]) % 2:
        place.mkdir()
        for name, content in files.items():
            (place / name).write_bytes(content)
        return place
    with zipfile.ZipFile(place.with_suffix(".zip"), "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return place.with_suffix(".zip")


TWO = (
    CYBORG
    + """
used, *files = sys.argv[1:]
loaded = []
for number, file in enumerate(files):
    spec = importlib.util.spec_from_file_location(f"handed_in_{number}", file)
    loaded.append(importlib.util.module_from_spec(spec))
    spec.loader.exec_module(loaded[-1])
for module in loaded + loaded:
    print(eval(used, vars(module)))
"""
)


def used_together(used: str, *files: Path) -> list[str]:
    """Load agents that are handed in, each by its file, into one process. Return what an expression
    is in the modules, one after another, twice."""
    command = [sys.executable, "-B", "-c", TWO, used, *map(str, files)]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert said.returncode == 0, said.stderr
    return said.stdout.splitlines()
