"""Each piece of advice that a command prints is followed, and helps."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.any_envs import TargetEnv
from tests.bad_input.refusals import digests
from tests.cli import CART_POLE, call, refused, said_by
from workflow_rl import load_agent
from workflow_rl.runs.folder import read_summary
from workflow_rl.suggestions import ELSEWHERE

CAGE4 = "--env workflow_rl/CAGE4-v0"
TINY = "--n-envs 2 --n-workers 1 --hidden-sizes 4 --quiet"
RUN = f"train-async {CART_POLE} {TINY} --total-steps 60 --steps-per-update 30"
TUTORIAL = Path(__file__).parents[3] / "docs" / "tutorial.md"


def advised(output: str, heading: str) -> str:
    """The words of the command that the line with this heading names."""
    (words,) = re.findall(rf"^{heading}: .*workflow[-_]rl (.*)$", output, re.MULTILINE)
    return words


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run on CartPole, one of two policies, one on CAGE-2, and files of them."""
    folder = tmp_path_factory.mktemp("made")
    said_by(f"{RUN} --run-dir {folder}/pole")
    said_by(f"{RUN} --run-dir {folder}/two --n-policies 2")
    cage = f"--simulator compiled --max-steps 6 --total-episodes 4 {TINY}"
    said_by(f"train-async {cage} --run-dir {folder}/cage")
    said_by(f"export {folder}/pole --format npz --output {folder}/pole.npz")
    said_by(f"export {folder}/cage --format cage2 --output {folder}/challenge")
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The present folder, with a copy of what was made."""
    shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


SETTINGS = [
    ("--eval-every 9 --patience 3", r"give (\d+) or more", "--patience {}"),
    ("--num-steps-per-env 8 --steps-per-update 70", r"give (\d+) or", "--steps-per-update {}"),
    ("--num-steps-per-env 8 --steps-per-update 70", r"or (\d+)$", "--steps-per-update {}"),
    ("--curriculum --total-episodes 9", r"needs (--\S+):", "{} 1"),
    ("--curriculum --total-episodes 9 --eval-every 1", "", ""),
    ("--curriculum", r"number of (--\S+):", "{} 9 --eval-every 1"),
    ("--batching whole-batches", r"needs (--\S+)$", "{}"),
    ("--simulator compiled --teacher-epochs 3", r"goes with (--\S+):", "{} decoys"),
    ("--simulator compiled --algorithm sac --teacher decoys", r"use (\S+)$", "--algorithm {}"),
    ("--algorithm sac --learner-threads 9", r"at most (\d+)$", "--learner-threads {}"),
    ("--n-workers 9", r"at most (--\S+), ", "{} 9"),
    ("--n-workers 2 --envs-per-worker 2", "", ""),
    ("--n-envs 9 --n-workers 2 --envs-per-worker 2", r"must be (\d+) ", "--envs-per-worker {}"),
    ("--preset cage2-quik", r"mean (\S+) or", "--preset {}"),
    ("--env CartPol-v1", r"mean: `(\S+)`\?", "--env {}"),
    ("--env tests.any_envs:TargetEnvv", r"mean (\S+)\?", "--env {}"),
    ("--red-agent B_line", r"mean (\S+)\?", "--red-agent {}"),
    ("--red-agent nobody", r"choose ([\w]+)", "--red-agent {}"),
    ("--simulator cyborg --scenario scenario1b", r"simulator='(\w+)' plays", "--simulator {}"),
    (
        f"{CAGE4} --actions repair --own-rewards --simulator cyborg",
        r"simulator (\w+),",
        "--simulator {}",
    ),
    (f"{CAGE4} --own-rewards", r"Choose actions (\w+)$", "--actions {}"),
    ("--env tests.any_envs:TalkingPuzzleEnv", r"(--ignore-unknown)", "{}"),
    ("--env tests.workflow_rl.commands.test_errors:MisnamedMask", r"with (--no-\S+)$", "{}"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "pattern", "remedy"), SETTINGS)
def test_a_setting_that_is_advised_is_taken(words, pattern, remedy):
    env = "" if re.search("--(env|simulator|scenario|red-agent|preset) ", words) else CART_POLE
    asked = f"train-async {env} {words} --dry-run"
    if pattern:
        message = refused(call(asked))
        (found,) = re.findall(pattern, message)[:1] or [message]
        asked += f" {remedy.format(found)}"
    said_by(asked)


FILES = [
    ("train-async --resume pole.npz", "give the run's folder", "train-async --resume pole"),
    ("train-async --resume", "(--resume) FOLDER", "train-async {} pole"),
    ("train-sync --resume two --total-steps 900", r"with (train-\S+)$", "{} --resume two {MORE}"),
    ("train-async --resume pole", r"a larger (--\S+)$", "train-async --resume pole {} 900 --quiet"),
    ("train-async --resume pole --run-dir two", "leave it out", "train-async --resume pole"),
    ("train-async --resume pole --total-steps 50", "more than", "train-async --resume pole {MORE}"),
    ("train-async --resume pole --seed 3", "leave it out", "train-async --resume pole"),
    ("{RUN} --run-dir pole", r"go on with (--\S+)", "train-async {} pole"),
    ("{RUN} --run-dir pole", "another folder", "{RUN} --run-dir other"),
    ("{RUN} --init-from pole.npz", "give a run's folder", "{RUN} --init-from pole"),
    ("{RUN} --teacher a:b", "(record) its episodes in a file", "{} pole file.npz --episodes 2"),
    ("evaluate .", r"give one of \w+, (\w+)", "evaluate {} {FEW}"),
    ("evaluate challenge", r"in it, (\S+)", "evaluate {} {CELL}"),
    ("evaluate pole.npz --which best", "run folder: give one", "evaluate pole --which best {FEW}"),
    ("evaluate pole --env a:b", "leave it out", "evaluate pole {FEW}"),
    ("evaluate --run pole", "is given without an option", "evaluate pole {FEW}"),
    ("evaluate champio", r"mean (\S+) or", "evaluate {} {CELL}"),
    ("evaluate two {FEW}", "score each: (?:.*workflow[-_]rl) (.*)", "{} {FEW}"),
    ("evaluate two {FEW}", "the best policy alone", "evaluate two/policy-0 {FEW}"),
    ("evaluate two/policy-0 two/policy-1 {FEW}", r"together: .*?rl (compare \S+ \S+)", "{}"),
    ("export pole --format npz --output a.txt", r"ends in (\S+)$", "{NPZ} a{}"),
    ("{NPZ} pole.npz", "exists already: give another name", "{NPZ} other.npz"),
    ("{NPZ} pole.npz", r"or (--\S+)$", "{NPZ} pole.npz {}"),
    ("{CHALLENGE} challenge", "give a new or empty folder", "{CHALLENGE} other"),
    ("export cage --format npz --output new", "name that ends in (.npz)", "{NPZ} new{}"),
    ("compare pole", "run `(.*)` first", "{} {FEW}"),
    ("verify two", r"such as (\S+)$", "verify {}"),
    ("verify pole --init-from pole", "leave (--init-from) out", "verify pole"),
    ("plot challenge", "Give the folder of a training", "plot pole"),
    ("report challenge", "Give the folder of a training", "report pole"),
    ("check-env --env CartPole-v1", "ENV_ID is given without", "check-env CartPole-v1 --steps 20"),
    ("record pole pole", "is a folder: give a file", "record pole new.npz --episodes 2"),
    ("tune {POLE}", "(--trials) N", "tune {POLE} {} 1 --dry-run"),
    ("tune {POLE} --trials 1 --trace a.json", "leave it out", "tune {POLE} --trials 1 --dry-run"),
]
WORDS = {
    "POLE": CART_POLE,
    "RUN": RUN,
    "MORE": "--total-steps 900 --quiet",
    "FEW": "--episodes 2 --quiet",
    "CELL": "--episodes 1 --max-steps 5 --red-agent B_lineAgent --quiet",
    "NPZ": "export pole --format npz --output",
    "CHALLENGE": "export cage --format cage2 --output",
}


@pytest.mark.system
@pytest.mark.parametrize(("words", "pattern", "remedy"), FILES)
def test_what_is_advised_about_files_can_be_done(words, pattern, remedy, here):
    before = digests(here)
    result = call(words.format(**WORDS))
    assert result.exit_code != 2 or digests(here) == before
    output = " ".join(result.output.split())
    found = re.search(pattern, output)
    assert found is not None, output
    follow = remedy.format(*found.groups(), **WORDS)
    # The shell reads a pattern of files.
    for name in re.findall(r"\S+\*", follow):
        follow = follow.replace(name, " ".join(map(str, sorted(here.glob(name)))))
    said_by(follow)


def test_the_tutorial_shows_the_settings_that_it_trains():
    """Its first command sets up, and prints them."""
    text = TUTORIAL.read_text()
    (shown,) = re.findall(r"^bash run_async_training.sh (.*)$", text, re.MULTILINE)
    (trained,) = re.findall(r"^python -m workflow_rl (train-async .*)$", text, re.MULTILINE)
    assert said_by(f"train-async {shown}") == said_by(f"{trained} --dry-run")


@pytest.mark.parametrize("command", ["train-sync", "tune", "train-population"])
def test_an_option_that_is_meant_is_one_of_the_command(command):
    for typed in ELSEWHERE:
        meant = re.search(r"Did you mean (.*)\?", refused(call(f"{command} {typed} 1")))
        for option in re.split(" or ", meant[1]) if meant else ():
            assert f"No such option '{option}'" not in call(f"{command} {option}").output


class Spoilt(TargetEnv):
    """Once a run has begun, gives a reward that is no number, or fails, until it is mended."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self._how = how

    def step(self, action: Any) -> Any:
        obs, reward, *others = super().step(action)
        if Path("run/checkpoint.safetensors").exists() and not Path("mended").exists():
            if self._how == "fails":
                os._exit(3)
            reward = np.nan
        return obs, reward, *others


def failing(update: Any) -> None:
    if not Path("mended").exists():
        raise RuntimeError("a mistake")


def stopping(update: Any) -> None:
    if not Path("mended").exists():
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.system
@pytest.mark.parametrize(
    ("how", "code", "says"),
    [
        ("--env {0}:Spoilt --env-arg how=nan", 1, "correct the environment"),
        ("--env {0}:Spoilt --env-arg how=fails --max-worker-failures 0", 1, "is saved"),
        ("--env CartPole-v1 --on-update {0}:failing", 1, "a mistake"),
        ("--env CartPole-v1 --on-update {0}:stopping", 143, "SIGTERM"),
    ],
)
def test_a_run_goes_on_as_is_advised(how, code, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny = f"{TINY} --total-episodes 60 --episodes-per-update 4 --final-evaluation 2"
    stopped = said_by(f"train-async {how.format(__name__)} {tiny} --run-dir run", code=code)
    assert says in stopped
    Path("mended").touch()
    (again,) = re.findall(r"go on with: .*workflow[-_]rl (.*)$", stopped, re.MULTILINE)
    assert "is it good" not in said_by(f"{again} --quiet")
    assert read_summary(tmp_path / "run")["episodes"] == 60


@pytest.mark.system
def test_what_check_env_advises_is_taken(tmp_path):
    short = f"{TINY} --total-steps 30 --steps-per-update 16 --run-dir {tmp_path}"
    for number, env in enumerate(["TalkingPuzzleEnv", "PictureEnv"]):
        output = said_by(f"check-env tests.any_envs:{env} --steps 5")
        (options,) = re.findall("train with (--.*)$", output, re.MULTILINE)
        said_by(f"train-async --env tests.any_envs:{env} {options} {short}/{number}")


@pytest.mark.system
def test_hints_after_other_commands_can_be_followed(here):
    kuhn = f"--env examples.small_games:Kuhn --total-episodes 40 {TINY}"
    duel = said_by(f"train-duel {kuhn} --generations 1 --run-dir duel")
    short = "--selection-episodes 4 --episodes 4 --total-episodes 40 --n-policies 1 --quiet"
    said_by(f"{advised(duel, 'how far a new opponent gets')} {short} --run-dir attack")
    said_by(advised(said_by(f"{RUN} --trace a.json --run-dir traced"), "draw the trace"))
    cage = "train-async --simulator compiled --total-episodes 4 --quiet --n-workers 1"
    better = r"^better agents: .*workflow[-_]rl (.*)$"
    for preset in re.findall(better, said_by(cage), re.MULTILINE):
        said_by(f"{preset} --dry-run")
    said_by("export pole --format hub --output hub")
    again = f"exploit pole.npz {kuhn} {short} --run-dir attack"
    assert "cannot be attacked" in refused(call(again))
    assert "report: report.html\n" in said_by("report pole")
    assert "report: report.html (in the place of an earlier one)" in said_by("report pole")


def hints(output: str) -> dict[str, str]:
    """What each line's heading names: a command without the program's name, or an expression."""
    lines = (line.partition(": ") for line in output.splitlines() if re.match("[a-z ]+: ", line))
    return {head: re.sub(r"^.*workflow-rl ", "", text.strip()) for head, _, text in lines}


@pytest.mark.system
def test_every_hint_after_a_run_on_cage2_can_be_followed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = f"train-async --simulator compiled --total-episodes 8 {TINY} --run-dir runs/tiny"
    named = hints(said_by(f"{asked} --max-steps 10"))
    assert {"is it good", "watch it", "all on a page", "train on", "hand it in"} <= named.keys()
    assert "use it" not in named
    assert "sum of these" in said_by(f"{named['is it good']} --episodes 1 --max-steps 10")
    said_by(named["watch it"])
    said_by(named["all on a page"])
    exported = hints(said_by(named["hand it in"]))
    place = exported["play it"].removeprefix("cd ").partition(" &&")[0]
    play = [sys.executable, "evaluation.py", "--episodes", "2"]
    subprocess.run(play, cwd=place, check=True, capture_output=True)
    said_by(exported["pack it"])
    assert Path(f"{place}.zip").is_file()
    said_by(f"{named['train on']} --quiet")
    assert read_summary(tmp_path / "runs" / "tiny")["episodes"] == 16


@pytest.mark.system
def test_what_the_challenge_cannot_play_is_not_to_be_handed_in(tmp_path):
    asked = f"train-async --simulator compiled --total-episodes 4 --max-steps 5 {TINY}"
    named = hints(said_by(f"{asked} --observation true-state --run-dir", tmp_path / "run"))
    assert "hand it in" not in named


@pytest.mark.system
def test_every_hint_after_a_run_on_another_environment_can_be_followed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = f"train-sync {CART_POLE} --total-steps 200 --steps-per-update 100 {TINY}"
    named = hints(said_by(f"{asked} --run-dir runs/pole"))
    assert {"hand it in", "watch it"}.isdisjoint(named)
    said_by(f"{named['is it good']} --episodes 2")
    said_by(named["all on a page"])
    said_by(f"{named['train on']} --quiet")
    summary = read_summary(tmp_path / "runs" / "pole")
    assert summary["finished"]
    assert summary["env_steps"] >= 400
    (path,) = re.findall(r"workflow_rl.load_agent\('(.*)'\).act\(observation\)", named["use it"])
    assert load_agent(path).act([0.0] * 4) in (0, 1)


@pytest.mark.system
@pytest.mark.parametrize(
    ("options", "train_on"),
    [
        (
            "--total-steps 90000 --steps-per-update 100 --learning-rate 1e-9 --patience 3",
            "train-async --resume runs/pole --patience 6",
        ),
        (
            "--total-steps 6000 --steps-per-update 1000 --stop-at-return 1",
            r"train-async --resume runs/pole --stop-at-return[ =]\S+",
        ),
    ],
    ids=["patience", "a return that was reached"],
)
def test_a_run_that_ended_early_goes_on(options, train_on, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    named = hints(said_by(f"train-async {CART_POLE} {TINY} {options} --run-dir runs/pole"))
    assert re.fullmatch(train_on, named["train on"])
    before = read_summary(tmp_path / "runs" / "pole")["updates"]
    said_by(f"{named['train on']} --quiet")
    assert read_summary(tmp_path / "runs" / "pole")["updates"] > before
