import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.any_envs import PuzzleEnv
from tests.workflow_rl.runs.small_runs import ENVS, PPO, config_of
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.agents.sac.config import SACConfig
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.runs import resolve
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.resolve import workers_for
from workflow_rl.runs.resume import changes_on_resume, free_on_resume
from workflow_rl.runs.signature import only_the_file_names, signed


@pytest.mark.parametrize(
    ("mode", "n_envs", "simulator", "expected"),
    [
        ("sync", 5, "cyborg", (5, 1)),  # One env a worker.
        ("async", 100, "cyborg", (2, 50)),  # One worker a core.
        ("async", 1, "cyborg", (1, 1)),
        ("sync", 100, "compiled", (2, 50)),
    ],
)
def test_how_many_workers_there_are(mode, n_envs, simulator, expected, monkeypatch):
    monkeypatch.setattr(resolve, "usable_cores", lambda: 2)
    config = TrainConfig(mode, n_envs=n_envs, env_args={"simulator": simulator})
    assert (config.n_workers, config.envs_per_worker) == expected


@pytest.mark.parametrize("n_envs", [1, 8, 24, 100])
def test_the_number_of_envs_does_not_decide_how_much_an_update_learns_from(n_envs):
    assert TrainConfig("async", n_envs=n_envs).episodes_per_update == 24
    assert TrainConfig("async", n_envs=n_envs, env="CartPole-v1").steps_per_update == 2048


@given(
    n_envs=st.integers(1, 200),
    n_workers=st.none() | st.integers(1, 200),
    envs_per_worker=st.none() | st.integers(1, 200),
    one_env_each=st.booleans(),
)
def test_every_env_has_a_worker_or_the_option_is_named(
    n_envs, n_workers, envs_per_worker, one_env_each
):
    n_given, per_given = n_workers or n_envs, envs_per_worker or n_envs
    if n_workers and (n_workers > n_envs or n_workers * per_given < n_envs):
        with pytest.raises(ConfigError) as caught:
            workers_for(n_envs, n_workers, envs_per_worker, one_env_each, cores=2)
        assert caught.value.field_name == ("n_workers" if n_workers > n_envs else "envs_per_worker")
    else:
        workers, envs = workers_for(n_envs, n_workers, envs_per_worker, one_env_each, cores=2)
        assert workers <= n_given
        assert workers * envs >= n_envs
        assert n_workers in (None, workers)
        assert envs_per_worker in (None, envs)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mode", "both"),
        ("red_agent", "Nobody"),
        ("n_envs", 0),
        ("n_workers", 9),
        ("envs_per_worker", 0),
        ("max_steps", 0),
        ("total_episodes", 0),
        ("episodes_per_update", 0),
        ("seed", -1),
        ("learner_threads", 0),
        ("device", "tpu"),
        ("checkpoint_every", 0),
        ("eval_every", -1),
        ("eval_episodes", 0),
        ("worker_timeout", -1),
        ("max_worker_failures", -1),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(field, value):
    of_environment = field in ("red_agent", "max_steps")
    changes = {"env_args": {field: value}} if of_environment else {field: value}
    with pytest.raises(ConfigError) as caught:
        TrainConfig(**{"mode": "async", **changes})
    assert caught.value.field_name == field
    assert str(value) in str(caught.value)


def test_config_cannot_be_changed_and_has_the_device_that_was_found():
    with pytest.raises(ValueError, match="frozen"):
        TrainConfig("sync").seed = 1
    assert TrainConfig("sync", device="auto").device in ("cpu", "cuda")


SAID = {
    "environment": "environment: there is no such setting",
    "plug_in": "plug_in: there is no such setting",
    "total_steps": "does not go with total_episodes",
    "patience": "patience: 3 does not go with eval_every, 10",
    "teacher": "teacher: sac copies no agent: use ppo",
}


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("environment", {"environment": "CartPole-v1"}),  # There is no such setting.
        ("plug_in", {"plug_in": "CartPole-v1"}),
        ("num_batches_to_accumulate", {"num_batches_to_accumulate": 2}),
        ("batching", {"batching": "whole-batches"}),
        ("batching", {"mode": "sync", "batching": "first-come", "async_rl": True}),
        ("when_full", {"when_full": "drop", "async_rl": True}),
        ("take_all", {"take_all": True, "async_rl": True}),
        ("max_policy_lag", {"settings": PPOConfig(max_policy_lag=0), "async_rl": True}),
        ("steps_per_update", {"steps_per_update": 100, "episodes_per_update": 5}),
        ("episodes_per_update", {"episodes_per_update": 5, "num_steps_per_env": 10}),
        ("slow_worker_ms", {"slow_worker_ms": -1.0}),
        ("slow_worker_share", {"slow_worker_share": 0.0}),
        ("total_steps", {"env": "CartPole-v1", "total_steps": 5, "total_episodes": 5}),
        ("patience", {"env": "CartPole-v1", "eval_every": 10, "patience": 3}),
        ("teacher", {"env": "CartPole-v1", "algorithm": "sac", "teacher": "x"}),
        # With the algorithm.
        ("settings", {"settings": SACConfig()}),
        ("batch_size", {"settings": {"batch_size": 16}}),
        ("device", {"algorithm": "sac", "device": "cuda"}),
        ("learner_threads", {"algorithm": "sac", "learner_threads": 2}),
        ("algorithm", {"algorithm": "none"}),
    ],
)
def test_settings_that_do_not_go_together_are_refused(field, changes):
    with pytest.raises(ConfigError, match=SAID.get(field, "")) as caught:
        TrainConfig(**{"mode": "async", **changes})
    assert caught.value.field_name == field


def test_a_limit_that_every_sample_keeps_is_allowed():
    ppo = PPOConfig(max_policy_lag=3)
    TrainConfig("async", async_rl=True, num_batches_to_accumulate=3, settings=ppo)
    TrainConfig("async", settings=PPOConfig(max_policy_lag=0))


def on_another_environment(config: TrainConfig) -> TrainConfig:
    return config.changed(env="CartPole-v1", env_args={})


DEFAULT = TrainConfig("async")
GIVEN = {
    "total_episodes": st.sampled_from([DEFAULT.total_episodes, 7]),
    "episodes_per_update": st.sampled_from([DEFAULT.episodes_per_update, 5]),
    "settings": st.sampled_from([PPOConfig(), {"discount": PPOConfig().discount}]),
}


@given(values=st.fixed_dictionaries({}, optional=GIVEN), seed=st.integers(0, 9))
def test_what_is_given_stays_on_another_environment(values, seed):
    """Also what equals CAGE-2's default, and after a change."""
    config = on_another_environment(TrainConfig("async", **values).changed(seed=seed))
    assert config.seed == seed
    for name, value in values.items():
        if isinstance(value, dict):
            assert config.settings.discount == value["discount"]
            assert config.settings.normalise_obs  # The default where nothing is known.
        else:
            assert getattr(config, name) == value
    if "total_episodes" not in values:
        assert (config.total_episodes, config.total_steps) == (None, 100_000)
    if "settings" not in values:
        assert config.settings.normalise_obs


def test_a_value_that_is_changed_later_is_given_and_none_asks_for_the_default_again():
    config = TrainConfig("async").changed(total_episodes=9)
    assert on_another_environment(config).total_episodes == 9
    asked = {"mode": "sync", "n_envs": 6, "n_workers": 2, "env_args": {"simulator": "cyborg"}}
    config = TrainConfig(**asked)
    assert config.changed(n_workers=None).n_workers == 6
    assert config.given == asked


def test_a_config_of_sac_goes_on_another_environment():
    settings = on_another_environment(TrainConfig("async", algorithm="sac")).settings
    assert settings == SACConfig(reward_scale=1.0)


def test_a_preset_gives_defaults_and_what_is_given_wins():
    config = TrainConfig("async", preset="sample-factory-async", steps_per_update=64)
    assert (config.batching, config.steps_per_update) == ("first-come", 64)
    assert config.settings.max_policy_lag == 1000
    own = config.changed(settings={"max_policy_lag": 3, "epochs": 2}).settings
    assert (own.max_policy_lag, own.epochs) == (3, 2)


def test_another_network_than_a_presets_has_arguments_of_its_own():
    of_preset = TrainConfig("async", preset="cage4-quick").settings
    assert (of_preset.network, of_preset.network_args) == ("entities", {"heads": 0})
    for asked in ({"network": "mlp"}, {"network": "graph", "network_args": {"rounds": 2}}):
        settings = TrainConfig("async", preset="cage4-quick", settings=asked).settings
        assert settings.network == asked["network"]
        assert settings.network_args == asked.get("network_args", {})
        assert settings.hidden_sizes == of_preset.hidden_sizes


@pytest.mark.parametrize(
    ("asked", "observation", "actions"),
    [
        ({}, "table", "all"),
        ({"algorithm": "sac"}, "belief", "by-host"),
        ({"preset": "mbpo-batch"}, "belief", "by-host"),
        ({"algorithm": "mbpo", "env_args": {"observation": "table"}}, "table", "by-host"),
        ({"algorithm": "sac", "env_args": {"actions": "all"}}, "belief", "all"),
    ],
)
def test_off_policy_learning_gets_the_observation_that_it_needs(asked, observation, actions):
    config = TrainConfig("async", **asked)
    args = config.env_args
    assert (args["observation"], args["actions"]) == (observation, actions)
    assert TrainConfig.from_dict(config.to_dict()).env_args == args


def test_none_is_the_default_of_every_field_and_a_presets_value_first():
    fields = dict.fromkeys(set(TrainConfig.model_fields) - {"mode"})
    assert TrainConfig("async", **fields).to_dict() == TrainConfig("async").to_dict()
    given = {"preset": "sac-control", "env": "Pendulum-v1", "total_steps": 100}
    config = TrainConfig("async", **given, n_envs=None, algorithm=None)
    assert (config.n_envs, config.algorithm) == (1, "sac")


@pytest.mark.parametrize("env", ENVS)
def test_a_config_is_the_same_from_its_plain_values(env):
    config = config_of(env).changed(settings={"hidden_sizes": (8, 9), "target_kl": 0.1})
    plain = config.to_dict()
    assert TrainConfig.from_dict(json.loads(json.dumps(plain))) == config
    assert plain["env_args"] == ENVS[env].get("env_args", {})


def test_defaults_are_those_of_an_environment_of_which_nothing_is_known():
    config = TrainConfig("async", env="CartPole-v1")
    assert (config.total_episodes, config.total_steps) == (None, 100_000)
    assert (config.episodes_per_update, config.steps_per_update) == (None, 2048)
    assert (config.settings.normalise_obs, config.settings.normalise_returns) == (True, True)
    with_function = TrainConfig("async", env="mine", make_env=PuzzleEnv)
    for name in ("total_episodes", "total_steps", "episodes_per_update", "steps_per_update"):
        assert getattr(with_function, name) == getattr(config, name)
    assert with_function.settings == config.settings
    given = TrainConfig("async", total_steps=77, settings=PPO).changed(
        env="mine", make_env=PuzzleEnv
    )
    assert (given.total_episodes, given.total_steps, given.settings) == (None, 77, PPO)
    unrolls = TrainConfig("async", n_envs=10, num_steps_per_env=100, env="CartPole-v1")
    assert unrolls.steps_per_update == 3000


def saved(env: str = "workflow_rl/CAGE2-v0", **changes: Any) -> dict[str, Any]:
    return {**TrainConfig("async", env=env).to_dict(), **changes}


def test_what_a_preset_would_give_is_not_given_to_a_saved_config():
    config = TrainConfig.from_dict(saved(preset="alf"))
    assert (config.preset, config.num_steps_per_env) == ("alf", None)


@pytest.mark.parametrize("where", ["", "settings"])
def test_a_config_with_an_unknown_setting_is_refused(where):
    values = saved()
    (values[where] if where else values)["hindsight"] = None
    with pytest.raises(UserError, match="another version of the package: it has 'hinds"):
        TrainConfig.from_dict(values)


@pytest.mark.parametrize("env", ["workflow_rl/CAGE2-v0", "CartPole-v1"])
def test_a_config_without_a_setting_is_refused(env):
    values = saved(env=env)
    del values["patience"]
    with pytest.raises(UserError, match="another version of the package: it lacks 'pati"):
        TrainConfig.from_dict(values)


def test_an_algorithm_of_the_users_that_is_gone_is_an_error():
    gone = signed(saved(algorithm="tests.random_actor:Own", settings={"speed": 3}))
    with pytest.raises(ConfigError, match=r"tests\.random_actor"):
        TrainConfig.to_train(gone)


def test_an_unknown_name_in_a_file_is_an_error():
    with pytest.raises(ConfigError, match="nobody"):
        TrainConfig.from_dict(saved(algorithm="nobody"))


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("__main__:Net", "a class of a script: put the class in a module"),
        ("my_module:f.<locals>.Net", "a class of a script: put the class in a module"),
        ("no_module_of_mine:Net", "no module no_module_of_mine is found from here: go to"),
        (
            "tests.own_networks:Net",
            "only the file mentions the network tests.own_networks:Net: give",
        ),
    ],
)
def test_what_to_do_about_a_class_that_only_a_file_names(name, advice):
    assert advice in only_the_file_names({"algorithm": "ppo", "settings": {"network": name}})


CONFIG = TrainConfig("async", n_envs=4, n_workers=2)
BEFORE = CONFIG.to_dict()


@pytest.mark.parametrize(
    "asked",
    [
        {"n_workers": 3},
        {"n_envs": 50},
        {"device": "cpu", "checkpoint_every": 3},
        {"total_episodes": 4000},
        {"seed": 0, "learning_rate": 3e-3, "red_agent": "B_lineAgent", "hidden_sizes": (64, 64)},
    ],
)
def test_what_changes_no_weights_may_change(asked):
    config = TrainConfig.from_dict({**BEFORE, **changes_on_resume(BEFORE, asked)})
    after = {name: config.flat()[name] for name in asked if name != "hidden_sizes"}
    assert after == {name: value for name, value in asked.items() if name != "hidden_sizes"}
    assert config.n_workers * config.envs_per_worker >= config.n_envs


@pytest.mark.parametrize(
    "asked",
    [
        {"seed": 1},
        {"learning_rate": 1e-3},
        {"red_agent": "mixed"},
        {"total_episodes": 2999},
        {"total_steps": 10**9},
        {"env": "CartPole-v1"},
        {"batch_size": 3},
    ],
)
def test_what_would_make_it_another_run_may_not(asked):
    with pytest.raises(ConfigError) as caught:
        changes_on_resume(BEFORE, asked)
    assert caught.value.field_name in asked


def test_unrolls_depend_on_the_number_of_envs():
    unrolls = CONFIG.changed(num_steps_per_env=10, episodes_per_update=None)
    assert "n_envs" in free_on_resume(BEFORE)
    assert "n_envs" not in free_on_resume(unrolls.to_dict())
