import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workflow_rl.cage2.descriptions import described
from workflow_rl.cage2 import scenario2
from workflow_rl.cage2.attack_graph import attack_graph
from workflow_rl.cage2.scenario.files import MOST_BYTES, write_scenario
from workflow_rl.cage2.scenario.loading import scenario_of
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import ScenarioError, capacity

ROOT = Path(__file__).parents[4]
CHALLENGE = Scenario.scenario2()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scenario 2 as a file, with an image of its own beside it."""
    path = tmp_path_factory.mktemp("scenario") / "office.yaml"
    description = CHALLENGE.description()
    description["Hosts"]["User1"]["Processes"].append(
        {"PID": 7, "PPID": 1, "Process Name": "cups", "Username": "root"}
    )
    write_scenario(described(description), path)
    return path


def test_scenario2_is_the_challenges_to_the_bit():
    assert CHALLENGE.action_names == scenario2.ACTION_NAMES
    assert CHALLENGE.red_action_names == scenario2.RED_ACTION_NAMES
    assert CHALLENGE.hosts == scenario2.HOSTS
    assert (CHALLENGE.red_host, CHALLENGE.ot_hosts) == ("User0", ("Op_Server0",))
    assert CHALLENGE.text == "scenario2"


def test_a_file_holds_the_whole_scenario(file):
    read = scenario_of(file)
    assert read.name == "office"
    assert not read.is_scenario2
    *_, last = read.description()["Hosts"]["User1"]["Processes"]
    assert last["Process Name"] == "cups"
    assert Scenario.from_text(read.text) == Scenario.from_checked(read.text) == read
    file.with_name("same.yaml").write_text(file.read_text())
    assert scenario_of(file.with_name("same.yaml")).digest == read.digest


def test_another_image_of_the_same_name_is_not_overwritten(file, tmp_path):
    office = scenario_of(file)
    write_scenario(office, tmp_path / "office.yaml")
    write_scenario(office.enter_at("User2"), tmp_path / "same-images.yaml")
    other = office.description()
    del other["Hosts"]["User1"]["Processes"][-2:]
    with pytest.raises(ScenarioError, match="another image User1 is there"):
        write_scenario(described(other), tmp_path / "other.yaml")
    assert not (tmp_path / "other.yaml").exists()
    assert scenario_of(tmp_path / "office.yaml") == office


def test_hosts_values_links_and_subnets_change():
    changed = (
        CHALLENGE.add_subnet("Lab", only_from_enterprise=["User"])
        .add_host("Lab0", "OP_Server", "Lab", availability="High", leads_to=["Op_Server0"])
        .change_host("Enterprise2", leads_to=["Lab0"], confidentiality="High")
        .remove_host("Op_Host1")
        .enter_at("User3")
    )
    assert changed.hosts == (*(h for h in CHALLENGE.hosts if h != "Op_Host1"), "Lab0")
    assert changed.obs_size == 52
    assert changed.subnets["Lab"] == ("Lab0",)
    assert changed.ot_hosts == ("Op_Server0", "Lab0")
    assert changed.red_host == "User3"
    description = changed.description()
    assert description["Hosts"]["Enterprise2"]["ConfidentialityValue"] == "High"
    assert [*description["Hosts"]["Enterprise2"]["info"]] == ["Enterprise2", "Lab0"]
    assert changed.digest != CHALLENGE.digest
    assert changed.leads_to["Enterprise2"] == ("Lab0",)
    assert changed.leads_to["User3"] == ("Enterprise0",)
    graph = attack_graph(changed)
    assert graph["Lab0"].found_from == ("Enterprise2",)
    assert attack_graph(CHALLENGE)["Enterprise0"].found_from == ("User3", "User4")
    assert graph["Lab0"].is_held
    assert graph["Defender"] == ("Enterprise", (), False) or not graph["Defender"].is_held


def test_what_an_image_has_no_place_for_changes_no_host():
    data = json.loads(CHALLENGE.content)
    data["Images"]["Gateway"] |= {"info": {"Nobody": {}}, "ConfidentialityValue": "Huge"}
    read = Scenario.from_text("x 1\n" + json.dumps(data))
    assert read.description() == CHALLENGE.description()


def test_a_subnet_grows_to_hold_its_hosts():
    grown = CHALLENGE
    for number in range(5, 25):
        grown = grown.add_host(f"User{number}", "Gateway", "User")
    size = grown.description()["Subnets"]["User"]["Size"]
    assert capacity(size) >= 25 > capacity(size - 1)
    description = grown.description()
    description["Subnets"]["User"]["Size"] = 25
    with pytest.raises(ScenarioError, match=f"14 addresses .* give {size} or more"):
        described(description)


def replaced(old: str, new: str, count: int = 1) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new, count)

    return change


def changed(change: Callable[[dict], object]) -> Callable[[str], str]:
    def damage(text: str) -> str:
        data = yaml.safe_load(text)
        change(data)
        return yaml.safe_dump(data, sort_keys=False)

    return damage


def entry(data: Any, path: str) -> Any:
    """Return what stands at a place, such as Agents.Blue.starting_sessions.0.hostname."""
    for key in path.split(".") if path else ():
        data = data[int(key) if key in ("0", "-1") else key]
    return data


def put(path: str, **values: object) -> Callable[[str], str]:
    return changed(lambda data: entry(data, path).update(values))


def without(path: str) -> Callable[[str], str]:
    place, _, key = path.rpartition(".")
    return changed(lambda data: entry(data, place).pop(int(key) if key in ("0", "-1") else key))


def removed(path: str, value: str) -> Callable[[str], str]:
    return changed(lambda data: entry(data, path).remove(value))


def appended(path: str, value: str) -> Callable[[str], str]:
    return changed(lambda data: entry(data, path).append(value))


def doubled(path: str) -> Callable[[str], str]:
    """The first of a list is there again as the last."""
    return changed(lambda data: entry(data, path).append(entry(data, path)[0]))


def many_hosts(data: dict) -> None:
    data["Hosts"] |= {f"More{i}": data["Hosts"]["User1"] for i in range(60)}


def many_subnets(data: dict) -> None:
    data["Subnets"] |= {f"More{i}": {"Hosts": [], "NACLs": {}, "Size": 1} for i in range(8)}


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [" + ",".join([f"*{chr(97 + i)}"] * 9) + "]\n" for i in range(8)
)
SESSION_OF_RED = "Agents.Red.starting_sessions.0"
SESSIONS_OF_BLUE = "Agents.Blue.starting_sessions"
DAMAGED: dict[str, tuple[Callable[[str], str], str]] = {
    # --- No YAML, or none that is plain data.
    "empty": (lambda text: "", "no mapping"),
    "tab": (replaced("  Blue:", "\tBlue:"), "no YAML"),
    "control character": (lambda text: text + "# \x07", "no YAML"),
    "recursion": (lambda text: "Agents: &a\n  Blue: *a\n", "deeper than"),
    "very deep": (lambda text: "a: " + "[" * 2_000, "too deep"),
    "bomb": (lambda text: BOMB, "more than"),
    "a call": (replaced("Size: 3", "Size: !!python/object/apply:os.system [ls]"), "no plain value"),
    "a date": (replaced("Size: 3", "Size: 2024-01-01"), "no plain value"),
    "a merge": (replaced("    Size: 3", "    <<: {Size: 3}"), "a key is no text"),
    "key twice": (replaced("  Defender:\n    AWS_Info", "  User1:\n    AWS_Info"), "given twice"),
    # --- A wrong shape.
    "no red": (without("Agents.Red"), "Red is missing"),
    "hosts are a list": (put("", Hosts=[1]), "dictionary"),
    "one host": (changed(lambda d: d.update(Hosts={"A": d["Hosts"]["User1"]})), "at least 2"),
    "unknown section": (put("", Routers={}), "there is no Routers"),
    "unknown agent": (put("Agents", Purple={}), "there is no Purple"),
    "misspelt value": (replaced("ConfidentialityValue", "ConfidentalityValue"), "Did you mean"),
    "wrong word": (replaced("AvailabilityValue: High", "AvailabilityValue: Huge"), "'High'"),
    "size 0": (replaced("Size: 3", "Size: 0"), "greater than"),
    "size is true": (replaced("Size: 3", "Size: true"), "integer"),
    "access by rules": (
        put("Subnets.User.NACLs.all", **{"in": [{"PortRange": 22}]}),
        "'all' or 'None'",
    ),
    "a session without a host": (without(f"{SESSION_OF_RED}.hostname"), "hostname is missing"),
    "a green agent": (put("Agents.Green", agent_type="GreenAgent"), "'SleepAgent'"),
    "a wrapper": (put("Agents.Blue", wrappers=["os.system"]), "at most 0"),
    "host with a space": (replaced("User3", "User 3", -1), "is no name"),
    "host called success": (replaced("User3", "success", -1), "is no name"),
    "long host": (replaced("User3", "U" * 40, -1), "is no name"),
    "65 hosts": (changed(many_hosts), "at most 64"),
    "11 subnets": (changed(many_subnets), "at most 8"),
    # --- What does not agree.
    "unknown image": (replaced("image: Gateway", "image: Gatway"), "Did you mean Gateway"),
    "unknown host in a subnet": (replaced("- User4\n", "- User5\n"), "there is no host User5"),
    "host in two subnets": (appended("Subnets.User.Hosts", "Defender"), "in Enterprise already"),
    "host in no subnet": (removed("Subnets.User.Hosts", "User4"), "in no subnet"),
    "subnet called like a host": (replaced("  User:\n", "  User0:\n", -1), "name of a subnet"),
    "leads to nobody": (put("Hosts.User1.info", Web={"Interfaces": "All"}), "no host Web"),
    "service that does not run": (
        put("Hosts.User1.info.User1", Services=["OTService"]),
        "has no service OTService",
    ),
    "unknown subnet in a rule": (put("Subnets.User.NACLs", Lab={"in": "all"}), "no subnet Lab"),
    "closed to all": (put("Subnets.User.NACLs.all", **{"in": "None"}), "cannot close"),
    "session on an unknown host": (put(f"{SESSIONS_OF_BLUE}.0", hostname="X"), "no host X"),
    "no session of Red's": (put("Agents.Red", starting_sessions=[]), "0 sessions"),
    "two sessions of Red's": (doubled("Agents.Red.starting_sessions"), "2 sessions"),
    "Red with a shell": (put(SESSION_OF_RED, type="shell"), "RedAbstractSession"),
    "Red as nobody": (put(SESSION_OF_RED, username="nobody"), "has to be SYSTEM"),
    "Red knows another host": (
        put("Agents.Red.INT", Hosts={"User1": {"Interfaces": "All", "System info": "All"}}),
        "has to know User0",
    ),
    "Red cannot explore": (
        removed("Agents.Red.actions", "PrivilegeEscalate"),
        "PrivilegeEscalate is missing",
    ),
    "unknown action": (appended("Agents.Blue.actions", "Reboot"), "no action of Blue's"),
    "action twice": (appended("Agents.Blue.actions", "Restore"), "listed twice"),
    "no Monitor": (removed("Agents.Blue.actions", "Monitor"), "Sleep and Monitor"),
    "another reward": (put("Agents.Blue", reward_calculator_type="Baseline"), "is not played"),
    "no adversary": (without("Agents.Blue.adversary"), "has to be Red"),
    "a subnet is not allowed": (removed("Agents.Blue.AllowedSubnets", "User"), "User is missing"),
    "an unknown subnet is allowed": (
        appended("Agents.Blue.AllowedSubnets", "Lab"),
        "there is no subnet Lab",
    ),
    "Blue does not see a host": (without("Agents.Blue.INT.Hosts.User4"), "User4 is missing"),
    "a host without a client": (without(f"{SESSIONS_OF_BLUE}.0"), "has no VelociraptorClient"),
    "two clients": (doubled(SESSIONS_OF_BLUE), "already"),
    "no server": (without(f"{SESSIONS_OF_BLUE}.-1"), "0 sessions"),
    "a server that sees nothing": (without(f"{SESSIONS_OF_BLUE}.-1.artifacts"), "NetworkConn"),
    "an orphan": (put(f"{SESSIONS_OF_BLUE}.0", parent="Nobody"), "with the parent"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_one_line_with_the_place(damage, file):
    change, message = DAMAGED[damage]
    path = file.with_name("damaged.yaml")
    path.write_text(change(file.read_text()))
    with pytest.raises(ScenarioError) as error:
        scenario_of(path)
    told = str(error.value)
    assert message in told
    assert re.fullmatch(r"[^\n]*/damaged\.yaml(:\d+)?: [^\n]+", told)
    assert len(told) < 700


def test_the_line_is_the_one_in_the_file(file):
    text = file.read_text()
    number = text[: text.index("image: OP_Server")].count("\n") + 1
    path = file.with_name("damaged.yaml")
    path.write_text(text.replace("image: OP_Server", "image: Server"))
    with pytest.raises(ScenarioError, match=rf"damaged\.yaml:{number}: Hosts\.Op_Server0\.image: "):
        scenario_of(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe\x00\x9d", "no text in UTF-8"),
        (b"\0" * 100, "no YAML"),
        (b" " * (MOST_BYTES + 1), "at most"),
    ],
)
def test_junk_is_one_line(content, message, tmp_path):
    (tmp_path / "junk.yaml").write_bytes(content)
    with pytest.raises(ScenarioError, match=message):
        scenario_of(tmp_path / "junk.yaml")


LONG = f"&long {'x' * 100_000}"
LAUGH = ", &{1} [" + "*{0}, " * 9 + "]"
HOSTILE = {
    "one long text, many times": f"[{LONG}{', *long' * 10_000}]",
    "one long key, many times": f"[{{? {LONG} : 1}}{', {? *long : 1}' * 9_000}]",
    "laughs": f"[&a [1]{''.join(LAUGH.format(*pair) for pair in pairwise('abcdefgh'))}]",
    "a text in a text": f"{{a: &a [{LONG}{', *long' * 9}], b: [*a, *a, *a]}}",
    **{f"a number of {kind}": value for kind, value in {
        "hexadecimal digits": f"0x{'f' * 5000}", "digits": "9" * 5000, "bits": f"0b{'1' * 50_000}",
        "octal digits": f"0{'7' * 9000}", "parts": "1" + ":59" * 60_000, "_": f"1{'_' * 9000}1",
        "parts and a point": "1" + ":59" * 60_000 + ".5", "decimals": f"0.{'1' * 90_000}",
        "a date": f"2001-01-01 00:00:00.{'1' * 9000}",
    }.items()},
}  # fmt: skip
"""Values of a scenario that are short in a file, and long or slow once read."""
READ = """
import resource, sys
from workflow_rl.cage2.scenario import files
from workflow_rl.cage2.scenario.loading import scenario_of
from workflow_rl.cage2.scenario2 import ScenarioError
most = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + 2**28
resource.setrlimit(resource.RLIMIT_AS, (most, most))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
for path in sys.argv[1:]:
    try:
        print("read", len(scenario_of(path).content))
    except ScenarioError as error:
        print(error)
"""


@pytest.mark.system
def test_a_small_file_takes_little_memory_and_time(file, tmp_path):
    shutil.copytree(file.parent, tmp_path / "of", dirs_exist_ok=True)
    text, image = file.read_text(), "image: OP_Server\n"
    paths = []
    for number, value in enumerate(HOSTILE.values()):
        paths.append(tmp_path / "of" / f"{number}.yaml")
        paths[-1].write_text(text.replace(image, f"{image}    AWS_Info: {value}\n"))
        folder = tmp_path / f"image-{number}"
        (folder / "images").mkdir(parents=True)
        (folder / "images" / "images.yaml").write_text("OP_Server: {path: own}")
        (folder / "images" / "own.yaml").write_text(f"Test_Host: {{Ignored: {value}}}")
        paths.append(folder / "of.yaml")
        paths[-1].write_text(text)
    shared = tmp_path / "shared"
    (shared / "images").mkdir(parents=True)
    names = [f"image{number}" for number in range(5000)]
    index = "".join(f"{name}: {{path: own}}\n" for name in names)
    (shared / "images" / "images.yaml").write_text(index)
    (shared / "images" / "own.yaml").write_text(f"Test_Host: {{Ignored: {'x' * 250_000}}}")
    hosts = "".join(f"  {name}: {{image: {name}}}\n" for name in names)
    (shared / "of.yaml").write_text(f"Agents: {{}}\nSubnets: {{}}\nHosts:\n{hosts}")
    paths.append(shared / "of.yaml")
    command = [sys.executable, "-c", READ, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert len(lines) == len(paths)
    assert not [line for line in lines if line.startswith("read") or len(line) > 700]


@pytest.mark.parametrize("path", [".", "missing.yaml", "x" * 5000])
def test_no_file_is_one_line(path):
    with pytest.raises(ScenarioError, match=r"no file|no such file|too long"):
        scenario_of(path)


@pytest.mark.parametrize(
    ("index", "image", "message"),
    [
        ("User1: {path: ../secret}", None, "outside of the folder images"),
        ("User1: {path: /etc/passwd}", None, "outside of the folder images"),
        ("User1: {path: link}", None, "outside of the folder images"),
        ("User1: {path: none}", None, "there is no such file"),
        ("User1: {path: 5}", None, "give path"),
        ("User1: 5", None, "give path"),
        ("User1: {path: own}", "Test_Host: 5", "dictionary"),
        ("User1: {path: own}", "Test_Host: {Processes: []}", "System info is missing"),
        ("User1: {path: own}", "[]", "no mapping"),
        ("User1: {path: own}", None, "User Info is missing"),
    ],
)
def test_a_damaged_image_is_one_line(index, image, message, file, tmp_path):
    (tmp_path / "office.yaml").write_text(file.read_text())
    folder = tmp_path / "images"
    folder.mkdir()
    (tmp_path / "secret.yaml").write_text("Test_Host: secret")
    (folder / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    (folder / "images.yaml").write_text(index)
    own = yaml.safe_load((file.parent / "images" / "User1_image.yaml").read_text())
    del own["Test_Host"]["User Info"]
    (folder / "own.yaml").write_text(image or yaml.safe_dump(own))
    with pytest.raises(ScenarioError, match=message) as error:
        scenario_of(tmp_path / "office.yaml")
    assert "secret\n" not in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["x 1\n", "x 1\n[]", "x 1\n{}", "x 1\n" + "[" * 100_000])
def test_a_damaged_text_is_one_line(text):
    with pytest.raises(ScenarioError) as error:
        Scenario.from_text(text)
    assert "\n" not in str(error.value)


VALUES = st.sampled_from(
    [None, "", 0, -1, 10**30, True, 1.5, "None", "User0", "Enterprise", [], {}, ["User1"],
     "\x1b[2J", {"Hosts": {}}, "x" * 300]
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_mutated_scenario_loads_or_is_one_line(data):
    content = json.loads(CHALLENGE.content)
    for _ in range(data.draw(st.integers(1, 3))):
        entry, key = content, data.draw(st.sampled_from(sorted(content)))
        while isinstance(entry[key], dict | list) and entry[key] and data.draw(st.integers(0, 5)):
            entry = entry[key]
            keys = sorted(entry) if isinstance(entry, dict) else range(len(entry))
            key = data.draw(st.sampled_from(keys))
        if data.draw(st.booleans()):
            entry[key] = data.draw(VALUES)
        else:
            del entry[key]
        if not content:
            break
    said = ""
    try:
        Scenario.from_text("mutated 0\n" + json.dumps(content))
    except ScenarioError as error:
        said = str(error)
    assert "\n" not in said


def test_blue_can_have_other_actions():
    scenario = Scenario.scenario2().let_blue(("Sleep", "Monitor", "Restore"))
    restoring = (f"Restore {host}" for host in scenario.hosts)
    assert scenario.action_names == ("Sleep", "Monitor", *restoring)
    with pytest.raises(ScenarioError, match="Restor"):
        scenario.let_blue(("Sleep", "Monitor", "Restor"))
