"""Read and write scenario files in CybORG's format, which is YAML.

The reader takes only mappings, lists and plain values, and notes the line of every entry. It never
imports or calls what a file names, and opens no file outside of the scenario's folder."""

import functools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from workflow_rl.cage.attackers import label_of
from workflow_rl.cage2 import scenario2 as challenge
from workflow_rl.cage2.scenario.checks import MOST_HOSTS, Place, check_scenario, error_at
from workflow_rl.cage2.scenario.family import ScenarioFamily
from workflow_rl.cage2.scenario.scenario import NAMED, Scenario, one_text
from workflow_rl.cage2.scenario2 import SCENARIO2, ScenarioError
from workflow_rl.output_files import make_folder, no_pipe, write_text
from workflow_rl.suggestions import question, word_meant

MOST_BYTES = 300_000
"""The largest size of a file in bytes, and of all its texts together."""
MOST_ENTRIES = 20_000
"""The largest number of entries of a file. If a file uses an alias several times, the entries and
bytes of the alias count each time."""
MOST_LEVELS = 20
MOST_DIGITS = 40
"""The largest number of characters in a number, a truth value or null."""
_PLAIN = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null")}


class PlacedFile:
    """A YAML file with the line of each entry. Raises ScenarioError.

    data: the file's content, in plain values. lines: the line of each place."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.lines: dict[Place, int] = {}
        self._n_entries = self._n_bytes = 0
        try:
            root = yaml.compose(_text_of(path), Loader=yaml.SafeLoader)
        except RecursionError:
            raise error_at(f"{path}", "it is nested too deep") from None
        except yaml.YAMLError as error:
            raise _no_yaml(path, error) from None
        if not isinstance(root, yaml.MappingNode):
            raise error_at(f"{path}", "it is no mapping of names to values, as YAML has it")
        self.data = self._value(root, ())

    def located(self, place: Place) -> str:
        """Return the file, the line and the keys of a place, for messages. If the place has no
        line, return the line of the nearest place above it."""
        known = place
        while known and known not in self.lines:
            known = known[:-1]
        keys = ".".join(map(str, place)) or "the scenario"
        return f"{self._path}:{self.lines.get(known, 1)}: {keys}"

    def _value(self, node: yaml.Node, place: Place) -> Any:
        self.lines.setdefault(place, node.start_mark.line + 1)
        self._n_entries += 1
        if self._n_entries > MOST_ENTRIES:
            raise self._error(place, f"the file has more than {MOST_ENTRIES:,} entries")
        if len(place) > MOST_LEVELS:  # An alias that contains itself would never end.
            raise self._error(place, f"it is nested deeper than {MOST_LEVELS} levels")
        if isinstance(node, yaml.SequenceNode) and node.tag.endswith(":seq"):
            return [self._value(entry, (*place, i)) for i, entry in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode) and node.tag.endswith(":map"):
            return self._mapping(node, place)
        if node.tag not in _PLAIN:
            raise self._error(place, f"{node.tag!s:.50} is no plain value of YAML")
        self._count_text(node, place)
        if not node.tag.endswith(":str") and len(node.value) > MOST_DIGITS:
            raise self._error(place, f"{node.value!r:.50} is no value: it is too long")
        try:
            return yaml.SafeLoader("").construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            raise self._error(place, f"{node.value!r:.50} is no value: {error!s:.100}") from None

    def _count_text(self, node: yaml.ScalarNode, place: Place) -> None:
        self._n_bytes += len(node.value)
        if self._n_bytes > MOST_BYTES:
            most = f"{MOST_BYTES:,} bytes of text, those of an alias counted where it is used"
            raise self._error(place, f"the file has more than {most}")

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag != "tag:yaml.org,2002:str":
                raise self._error(place, f"a key is no text: {key.value!s:.50}")
            self._count_text(key, place)
            here = (*place, key.value)
            self.lines[here] = key.start_mark.line + 1
            if key.value in entries:
                raise self._error(here, f"{key.value:.50} is given twice")
            entries[key.value] = self._value(value, here)
        return entries

    def _error(self, place: Place, message: str) -> ScenarioError:
        return error_at(self.located(place), message)


def read(path: Path) -> Scenario | ScenarioFamily:
    """Read a family file, or a scenario file in CybORG's format. A scenario's images may be in the
    folder `images` beside the file. Raises ScenarioError."""
    file = PlacedFile(path)
    return _family(path, file) if _is_family(file) else _scenario(path, file)


def _is_family(file: PlacedFile) -> bool:
    return bool(file.data) and file.data.keys().isdisjoint(("Agents", "Hosts", "Subnets"))


def _family(path: Path, file: PlacedFile) -> ScenarioFamily:
    named = file.data.get("start", SCENARIO2)
    start = Scenario.scenario2()
    if isinstance(named, str) and named in NAMED:
        start = NAMED[named]()
    elif isinstance(named, str):
        if Path(named).name != named:
            raise error_at(file.located(("start",)), f"{named!r:.100} is not in the same folder")
        start_file = PlacedFile(path.parent / named)
        if _is_family(start_file):
            raise error_at(file.located(("start",)), f"{named:.100} is a family: give a scenario")
        start = _scenario(path.parent / named, start_file)
    name = label_of(path.stem) or "family"
    return ScenarioFamily.from_ranges(file.data, start, name, file.located)


def _scenario(path: Path, file: PlacedFile) -> Scenario:
    images: dict[str, PlacedFile] = {}
    data = file.data
    if "Images" in data:
        raise error_at(file.located(("Images",)), "images are in the folder images")
    hosts = data.get("Hosts")
    rows = hosts.values() if isinstance(hosts, dict) else ()
    named = [row.get("image") for row in rows if isinstance(row, dict)]
    data["Images"] = {}
    index = _index_of(path)
    image_file = functools.cache(PlacedFile)
    texts = [name for name in named[:MOST_HOSTS] if isinstance(name, str)]
    for name in dict.fromkeys(texts):
        if name in index:
            images[name] = image_file(index[name])
            data["Images"][name] = images[name].data.get("Test_Host")
        elif name in challenge.IMAGES:
            data["Images"][name] = challenge.IMAGES[name]

    def located(place: Place) -> str:
        if place[:1] == ("Images",) and len(place) > 1 and place[1] in images:
            return images[str(place[1])].located(("Test_Host", *place[2:]))
        return file.located(place)

    check_scenario(data, located)
    text = one_text(data)
    if len(text) > MOST_BYTES:
        raise error_at(f"{path}", f"with its images it has more than {MOST_BYTES:,} bytes")
    return Scenario(label_of(path.stem) or "scenario", text)


def _index_of(path: Path) -> Mapping[str, Path]:
    """Return the file of each image in the folder `images` beside a scenario file."""
    folder = path.parent / "images"
    if not (folder / "images.yaml").exists():
        return {}
    index = PlacedFile(folder / "images.yaml")
    files = {}
    for name, entry in index.data.items():
        file = entry.get("path") if isinstance(entry, dict) else None
        place = (name, "path") if isinstance(entry, dict) else (name,)
        if not isinstance(file, str):
            raise error_at(index.located(place), "give path, the name of its file")
        files[name] = folder / f"{file}.yaml"
        is_inside = files[name].resolve().parent == folder.resolve()
        if Path(file).name != file or not is_inside:
            raise error_at(index.located(place), f"{file!r:.100} is outside of the folder images")
    return files


def _text_of(path: Path) -> str:
    try:
        if not path.is_file():
            what = "it is no file" if path.exists() else "there is no such file"
            if meant := word_meant(str(path), NAMED):
                what += f".{question(meant)}"
            raise error_at(f"{path!s:.500}", what)
        if (size := path.stat().st_size) > MOST_BYTES:
            raise error_at(f"{path}", f"it has {size:,} bytes: at most {MOST_BYTES:,} are read")
        with open(path, "rb", opener=no_pipe) as file:
            return file.read(MOST_BYTES).decode()
    except OSError as error:
        raise error_at(f"{path!s:.500}", error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise error_at(f"{path}", "it is no text in UTF-8") from None


def _no_yaml(path: Path, error: yaml.YAMLError) -> ScenarioError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = f":{mark.line + 1}" if mark else ""
    problem = getattr(error, "problem", None) or str(error)
    return error_at(f"{path}{line}", f"it is no YAML: {' '.join(problem.split()):.200}")


def write_scenario(scenario: Scenario, path: str | os.PathLike[str]) -> None:
    """Write a scenario file in CybORG's format. Write images that Scenario 2 does not have into the
    folder `images` beside the file.

    Raises OSError, and ScenarioError if the folder has a different image with the same name."""
    data = json.loads(scenario.content)
    path = Path(path)
    further_images = {
        name: image for name, image in data["Images"].items() if image != challenge.IMAGES.get(name)
    }
    there = _index_of(path) if further_images else {}
    for name, image in further_images.items():
        if name in there and PlacedFile(there[name]).data.get("Test_Host") != image:
            raise ScenarioError(
                f"{there[name]}: another image {name} is there, which scenarios in {path.parent} "
                "may use: write into another folder"
            )
    if further_images:
        folder = path.parent / "images"
        make_folder(folder)
        index = folder / "images.yaml"
        entries = {name: {"path": f"{name}_image"} for name in further_images}
        if index.exists():
            entries = PlacedFile(index).data | entries
        for name, image in further_images.items():
            write_text(folder / f"{name}_image.yaml", _yaml({"Test_Host": image}))
        write_text(index, _yaml(entries))
    write_text(path, _yaml({kind: data[kind] for kind in data if kind != "Images"}))


def _yaml(data: Mapping[str, Any]) -> str:
    return str(yaml.safe_dump(data, sort_keys=False, width=100))
