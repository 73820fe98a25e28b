import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workflow_rl.agents.policies.actor_critic import ActorCritic
from workflow_rl.agents.policies.distributions import Categorical, Distribution
from workflow_rl.agents.policies.further_distributions import (
    DiagonalGaussian,
    MultiCategorical,
    SquashedGaussian,
)
from workflow_rl.agents.policies.numpy_policy import PolicyParameters
from workflow_rl.agents.policies.policy_file import (
    is_intact,
    load_policy,
    read_archive,
    save_policy,
    sealed,
    unpacked,
)


def flipped(content: bytes, place: int, bit: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


def policy_for(distribution: Distribution) -> PolicyParameters:
    network = ActorCritic(6, distribution, (16, 8), "relu", seed=1)
    return network.policy_parameters()


@pytest.mark.parametrize(
    "distribution",
    [
        Categorical(4),
        MultiCategorical([2, 3]),
        DiagonalGaussian(3),
        SquashedGaussian((-1.0, 0.0), (1.0, 4.0)),
    ],
)
@pytest.mark.parametrize("normalised", [False, True])
def test_what_is_loaded_is_what_was_saved(distribution, normalised, tmp_path):
    policy = policy_for(distribution)
    if normalised:
        policy = policy._replace(
            obs_mean=np.full(6, 0.5, np.float32), obs_scale=np.full(6, 2, np.float32)
        )
    save_policy(tmp_path / "policy.npz", policy, {"env": "some", "env_args": {"n": 3}})
    loaded, about = load_policy(tmp_path / "policy.npz")
    assert about == {"env": "some", "env_args": {"n": 3}}
    assert loaded.distribution == distribution
    for ours, theirs in zip(policy, loaded._replace(distribution=policy.distribution), strict=True):
        np.testing.assert_equal(theirs, ours)


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": (), "biases": ()},
        {
            "weights": (np.zeros((6, 3), np.float32), np.zeros((2, 4), np.float32)),
            "biases": (np.zeros(3, np.float32), np.zeros(4, np.float32)),
        },
        {"weights": (np.float32(1),)},
        {"biases": (np.zeros((4, 1), np.float32),)},
        {"activation": "none"},
        {"activation": ["tanh"]},
        {"obs_mean": np.zeros(6, np.float32)},
        {"obs_mean": np.zeros(2, np.float32), "obs_scale": np.ones(2, np.float32)},
        {"log_std": np.zeros(4, np.float32)},
        {"distribution": DiagonalGaussian(4)},
    ],
)
def test_what_could_not_act_is_refused(changes, tmp_path):
    policy = ActorCritic(6, Categorical(4), (), "relu", seed=1).policy_parameters()
    save_policy(tmp_path / "policy.npz", policy._replace(**changes), {})
    with pytest.raises(ValueError, match="is no policy file"):
        load_policy(tmp_path / "policy.npz")


def small_policy() -> PolicyParameters:
    policy = ActorCritic(3, DiagonalGaussian(1), (), "tanh", seed=1).policy_parameters()
    return policy._replace(obs_mean=np.ones(3, np.float32), obs_scale=np.ones(3, np.float32))


@pytest.mark.parametrize("network_args", ["", (), [], None])
def test_settings_of_a_network_are_a_table(network_args):
    settings, arrays = small_policy().packed()
    with pytest.raises(TypeError, match="mapping"):
        unpacked({**settings, "network_args": network_args}, arrays)


def test_no_bit_that_flips_in_an_older_file_makes_another_policy(tmp_path):
    """What is in no member's checksum is found out by what the members are."""
    path = tmp_path / "policy.npz"
    save_policy(path, small_policy(), {"env": "some"})
    content = path.read_bytes()
    content = content[: content.rindex(b"PK\5\6") + 20] + bytes(2)  # It has no seal.
    path.write_bytes(content)
    whole = plain(load_policy(path))
    directory = content.index(b"PK\1\2")
    bits = [(place, place % 8) for place in range(0, directory, 5)]
    bits += [(place, bit) for place in range(directory, len(content), 2) for bit in (place % 8, 6)]
    n_refused = 0
    for place, bit in bits:
        path.write_bytes(flipped(content, place, bit))
        try:
            assert plain(load_policy(path)) == whole, (place, bit)
        except ValueError:
            n_refused += 1
    assert n_refused > len(bits) / 4


def plain(loaded: tuple[PolicyParameters, dict[str, Any]]) -> str:
    policy, about = loaded
    return repr([getattr(one, "tolist", lambda one=one: one)() for one in policy]) + repr(about)


def with_members(change: Callable[[dict[str, bytes]], object]) -> Callable[[Path], None]:
    """Write a policy file whose members are changed so, and whose seal is gone."""

    def write(path: Path) -> None:
        save_policy(path, small_policy(), {})
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        change(members)
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)

    return write


def with_layers(n_layers: Any) -> Callable[[Path], None]:

    def write(path: Path) -> None:
        save_policy(path, small_policy(), {})
        with np.load(path) as file:
            arrays = dict(file)
        settings = {**json.loads(str(arrays["settings"])), "layers": n_layers}
        np.savez(path, **{**arrays, "settings": np.array(json.dumps(settings))})

    return write


def with_a_bit_flipped(path: Path) -> None:
    save_policy(path, small_policy(), {"env": "some"})
    content = path.read_bytes()
    path.write_bytes(flipped(content, len(content) // 2, 3))


NO_POLICY_FILES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: path.write_bytes(b""),
    "no archive": lambda path: path.write_bytes(b"PK no zip"),
    "a pickle": lambda path: path.write_bytes(b"\x80\x04K\x01."),
    "other arrays": lambda path: np.savez(path, something=np.zeros(3)),
    "an object": lambda path: np.savez(path, settings=np.array([{"an": "object"}], dtype=object)),
    "no mean": with_members(lambda members: members.pop("obs_mean.npy")),
    "no bias": with_members(lambda members: members.pop("bias_0.npy")),
    "a mean of another name": with_members(
        lambda members: members.update({"obs_meaN.npy": members.pop("obs_mean.npy")})
    ),
    "a further weight": with_members(
        lambda members: members.update({"weight_1.npy": members["weight_0.npy"]})
    ),
    "a bit that flipped": with_a_bit_flipped,
    **{f"{n_layers!r} layers": with_layers(n_layers) for n_layers in (0, 2, 10**15, -1, "1")},
}


@pytest.mark.parametrize("case", NO_POLICY_FILES)
def test_what_is_no_policy_file_says_so(case, tmp_path):
    path = tmp_path / "policy.npz"
    NO_POLICY_FILES[case](path)
    with pytest.raises(ValueError, match=r"policy\.npz is no policy file"):
        load_policy(path)


PAGE = 4096


def archive() -> bytes:
    file = io.BytesIO()
    np.savez(file, weight=np.arange(5000.0), name=np.array("an agent"))
    return file.getvalue()


def test_archives_that_were_never_sealed_are_read():
    assert is_intact(archive())
    half = archive()[: len(archive()) // 2]
    assert not is_intact(half)
    assert not is_intact(b"")
    # Of the weights themselves.
    at = archive().index(np.arange(5000.0).tobytes())
    assert not is_intact(flipped(archive(), at, 5))


def test_no_bit_that_flips_and_no_page_that_is_lost_goes_unnoticed():
    content = sealed(archive())
    random = np.random.default_rng(0)
    for bit in random.integers(8 * len(content), size=1000).tolist():
        assert not is_intact(flipped(content, *divmod(bit, 8))), bit
    for start in range(0, len(content), PAGE):
        zeroed = content[:start] + bytes(len(content[start : start + PAGE]))
        zeroed += content[start + PAGE :]
        assert zeroed == content or not is_intact(zeroed), start


def test_a_directory_that_hides_members_is_noticed():
    """The comment of an entry that swallows those behind it: each that is left is as written."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as members:
        for name in ("first", "second", "third"):
            members.writestr(name, name)
    content = file.getvalue()
    place = content.index(b"PK\1\2") + 32
    hidden = flipped(flipped(content, place, 6), place, 7)  # 64 bytes more, of two entries of 52.
    with zipfile.ZipFile(io.BytesIO(hidden)) as members:
        assert members.namelist() == ["first"], "or else this tests nothing"
        assert members.testzip() is None
    assert is_intact(content)
    assert not is_intact(hidden)


def test_files_larger_than_the_limit_are_not_read(tmp_path, monkeypatch):
    path = tmp_path / "archive.npz"
    path.write_bytes(archive())
    monkeypatch.setattr("workflow_rl.agents.policies.policy_file.MOST_BYTES", len(archive()))
    assert read_archive(path) == archive()
    monkeypatch.setattr("workflow_rl.agents.policies.policy_file.MOST_BYTES", len(archive()) - 1)
    with pytest.raises(ValueError, match="4 GB"):
        read_archive(path)


def test_a_pipe_is_no_archive(tmp_path):
    os.mkfifo(tmp_path / "agent.npz")
    with pytest.raises(ValueError, match="no file"):
        read_archive(tmp_path / "agent.npz")
