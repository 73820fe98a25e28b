import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workflow_rl.collection import try_in_worker
from workflow_rl.environments.environment import Environment
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.environments.named_by_file import Gated
from workflow_rl.environments.source import fields_of, guests, make_environment
from workflow_rl.errors import ConfigError
from workflow_rl.evaluation import evaluate

MODULE = "module_of_a_stranger"


def scores_of(environment: Environment) -> evaluate.Evaluation:
    played = {"episodes": 2, "seed": 0, "n_workers": 1, "worker_timeout": 9.0, "quiet": True}
    actor: Any = object()
    scoring = evaluate.ReturnScoring()
    return scoring.score(actor, environment, scoring.settings(), name="", **played)


USES: dict[str, Callable[[Any], Any]] = {
    "makes envs": lambda environment: environment.make_envs,
    "makes one env": lambda environment: environment.make_env(),
    "learns the facts": lambda environment: try_in_worker.learn_facts(environment),
    "tries": lambda environment: try_in_worker.check(environment),
    "checks": lambda environment: environment.check(),
    "asks for spaces": lambda environment: environment.spaces(),
    "scores": scores_of,
    "names it in a config": fields_of,
}


@pytest.mark.parametrize("use", USES)
def test_each_use_is_refused_before_a_worker_starts(use, tmp_path, monkeypatch):
    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("a worker starts")

    monkeypatch.chdir(tmp_path)
    Path(f"{MODULE}.py").write_text("raise SystemExit('imported')")
    of_a_stranger = make_environment(f"{MODULE}:make", {}, named_by_file=True)
    monkeypatch.setattr(try_in_worker, "LocalPool", refuse)
    monkeypatch.setattr(evaluate, "LocalPool", refuse)
    with pytest.raises(ConfigError, match=f"{MODULE}.*--trust"):
        USES[use](of_a_stranger)
    assert not try_in_worker.steps_together(of_a_stranger)
    assert MODULE not in sys.modules


def test_the_answer_for_the_user_is_not_given_for_a_stranger():
    """The answer is kept by the environment's id."""
    for is_named in (False, True, False):
        environment = GymnasiumEnvironment("tests.guises:Many", named_by_file=not is_named)
        assert try_in_worker.steps_together(environment) == is_named


def classes_below(kind: type) -> set[type]:
    return {kind}.union(*map(classes_below, kind.__subclasses__()))


def test_no_environment_has_another_way_to_make_envs():
    for guest in guests.importable():
        environment = guest.make(guest.arguments()())
        assert isinstance(environment, Gated) or not hasattr(type(environment), "foreign"), guest
    for kind in classes_below(Gated) - {Gated}:
        assert kind.make_envs is Gated.make_envs, kind  # type: ignore[attr-defined]


@dataclasses.dataclass(frozen=True)
class _Ungated:
    """Its author has not read that it must inherit Gated."""

    env_id: str = "CAGE2"
    named_by_file: bool = False
    foreign = ("stranger:Red",)


def test_a_guests_environment_that_would_not_refuse_itself_is_not_given(monkeypatch):
    env_id = next(iter(guests))
    guest = guests[env_id]
    monkeypatch.setattr(type(guest), "make", lambda self, args: _Ungated())
    make_environment(env_id, {})
    with pytest.raises(ConfigError, match="stranger"):
        make_environment(env_id, {}, named_by_file=True)
