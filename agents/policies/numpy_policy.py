"""The actor without torch, with which workers choose actions."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import (
    Categorical,
    Choice,
    Distribution,
    FloatArray,
    Prepared,
    Rows,
    masked,
)
from workflow_rl.agents.policies.network import OBS_LIMIT, Layers, Network
from workflow_rl.agents.policies.networks import NETWORKS

REMEMBERED_OBSERVATIONS = 16_384
REMEMBERED_BYTES, REMEMBERED_IN_ALL = 3072, 2**24
REPEATING_BYTES = 1024


OPTIONAL_ARRAYS = ("log_std", "obs_mean", "obs_scale")


class Actor(Protocol):
    """A player in any number of envs at once.

    Its actions in an env depend on the seed and the observations there, and on nothing else.
    Threads may share an actor that allows it, if each thread plays in envs of other numbers.
    """

    policy_version: int

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        """Begin an episode in env number `env`, with random choices that follow from `seed`.

        n_acted: how often another actor has acted in the episode before. An actor that has a
        `burn_in`, see `burn_in_of`, takes one argument more, `seen`: the last observations that
        were acted on before, [K, D], oldest first; None if there are none.
        """

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        """Return actions in `envs`, one for each of the observations [M, D], and their
        log-probabilities, float32 [M]."""


class Policy(Actor, Protocol):
    """An actor whose actions follow from arrays. masked: whether observations end with masks.
    greedy: whether it chooses the likeliest actions."""

    greedy: bool

    @property
    def parameters(self) -> Parameters: ...

    @property
    def masked(self) -> bool: ...


class Parameters(Protocol):
    """All that a policy's actions follow from: plain arrays."""

    def actor(self, policy_version: int = 0, greedy: bool = False) -> Policy:
        """Return the policy with these parameters. greedy: it chooses the likeliest actions."""

    def player(self, policy_version: int = 0, greedy: bool | None = None) -> Policy:
        """Return the policy as it plays after the training. greedy: None: as it is to be played."""

    def to_be_sampled(self) -> Parameters:
        """Return the same parameters, to be played by sampling actions."""

    def packed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the settings, which are plain, and the arrays, by name, as files hold them."""


def burn_in_of(actor: Actor) -> int:
    """Return how many of an episode's last observations the actor sees again before it goes on."""
    burn_in: int = getattr(actor, "burn_in", 0)
    return burn_in


class PolicyParameters(NamedTuple):
    """All that an actor's actions follow from: plain arrays, float32.

    weights, biases: see `network.Layers`. log_std: [K], if the distribution has one. obs_mean,
    obs_scale: [D]; the network sees (observation - obs_mean) * obs_scale, clipped to its `limit` on
    either side, or the observation itself where they are None. distribution: None is Categorical
    over the outputs. network, network_args: a key of `networks.NETWORKS`, and the further fields of
    this kind. masked: whether observations end with a mask, see `distributions`. n_further: how
    many numbers may stand before the mask that the critic sees and the actor does not. sampled:
    whether the agent is to be played by sampling its actions: see `player`.
    """

    weights: tuple[FloatArray, ...]
    biases: tuple[FloatArray, ...]
    activation: str
    log_std: FloatArray | None = None
    obs_mean: FloatArray | None = None
    obs_scale: FloatArray | None = None
    distribution: Distribution | None = None
    network: str = "mlp"
    network_args: Mapping[str, Any] = {}
    masked: bool = False
    n_further: int = 0
    sampled: bool = False

    @property
    def layers(self) -> Layers:
        return Layers(self.weights, self.biases)

    def described(self) -> Network:
        kind = NETWORKS[self.network]
        return kind.of_layers(self.layers, self.activation, **self.network_args)

    def actor(self, policy_version: int = 0, greedy: bool = False) -> NumpyPolicy:
        return NumpyPolicy(self, policy_version, greedy)

    def player(self, policy_version: int = 0, greedy: bool | None = None) -> NumpyPolicy:
        return self.actor(policy_version, not self.sampled if greedy is None else greedy)

    def to_be_sampled(self) -> PolicyParameters:
        return self._replace(sampled=True)

    def packed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """See Parameters. `policy_file.unpacked` is the inverse."""
        arrays: dict[str, Any] = {f"weight_{n}": weight for n, weight in enumerate(self.weights)}
        arrays |= {f"bias_{n}": bias for n, bias in enumerate(self.biases)}
        optional = {name: getattr(self, name) for name in OPTIONAL_ARRAYS}
        arrays |= {name: array for name, array in optional.items() if array is not None}
        actions = self.distribution or Categorical(self.described().n_outputs)
        settings = {
            "network": self.network,
            "network_args": dict(self.network_args),
            "masked": self.masked,
            "n_further": self.n_further,
            "sampled": self.sampled,
            "layers": len(self.weights),
            "activation": self.activation,
            "distribution": actions.to_plain(),
        }
        return settings, arrays

    def on(self, layout: Any, distribution: Distribution) -> PolicyParameters:
        """Return the policy for an environment with another layout, such as other entities, and so
        with other actions.

        Raises ValueError if the same weights cannot play it: if entities are described by other
        numbers or have other verbs, for images of other shapes.
        """
        from workflow_rl.agents.policies.entity_layout import carried

        kind = NETWORKS[self.network]
        layout, before = kind.known_of(layout), kind.layout_of(self.network_args["layout"])
        before.demand_like(layout)
        args = {**self.network_args, "layout": layout.to_plain()}
        policy = self._replace(network_args=args, distribution=distribution)
        if self.obs_mean is None or self.obs_scale is None:
            return policy
        mean, scale = (
            carried(statistics, before, layout) for statistics in (self.obs_mean, self.obs_scale)
        )
        return policy._replace(obs_mean=mean, obs_scale=scale)

    def obs_dim_of(self, network: Network) -> int:
        """Return the numbers in an observation, with its mask. network: see `described`."""
        return network.n_inputs + (network.n_outputs if self.masked else 0)


def normalised_obs(
    obs: NDArray[Any],
    mean: FloatArray,
    scale: FloatArray,
    limit: FloatArray | np.float32 = OBS_LIMIT,
) -> FloatArray:
    """Return observations [N, D] shifted, scaled, and clipped to the limit on either side."""
    shifted = (obs.astype(np.float32) - mean) * scale
    # np.clip would do the same in three times the time.
    return np.minimum(np.maximum(shifted, -limit), limit)


def likely_repeats(obs: NDArray[Any], most: int = REPEATING_BYTES) -> bool:
    """Whether observations [N, D] are likely to repeat bit for bit: a few integers, unlike
    measurements or pictures. The answer depends on their type alone, so that runs do not differ."""
    return obs.dtype.kind in "biu" and obs.itemsize * obs.shape[1] <= most


class NumpyPolicy:
    """A policy: a network without torch, and a distribution over actions.

    An observation, and the state of a network that has one, give the same outputs bit for bit,
    alone or in any batch. So a policy without a state can remember what it computed for an
    observation: CAGE-2's observations repeat, and most need no forward pass. Threads may share a
    policy: see Actor.
    """

    def __init__(
        self, parameters: PolicyParameters, policy_version: int = 0, greedy: bool = False
    ) -> None:
        self.parameters = parameters
        self.policy_version = policy_version
        self.greedy = greedy
        self.distribution = parameters.distribution or Categorical(self.network.n_outputs)
        self._randoms = {0: np.random.default_rng(0)}
        # By env, except at the beginning of an episode, when they are zeros.
        self._states: dict[int, FloatArray] = {}
        self._memory = _Memory()

    def __getstate__(self) -> dict[str, Any]:
        # Copies: another thread may begin an episode meanwhile.
        copies = {"_randoms": self._randoms.copy(), "_states": self._states.copy()}
        # With the network's class, so that a worker imports a kind of the user's own.
        return {**vars(self), **copies, "network": self.network}

    @functools.cached_property
    def network(self) -> Network:
        """The network's description. Raises KeyError for a kind that only a file names."""
        return self.parameters.described()

    @functools.cached_property
    def obs_dim(self) -> int:
        """Numbers in an observation, with its mask."""
        return self.parameters.obs_dim_of(self.network)

    @property
    def masked(self) -> bool:
        return self.parameters.masked

    @property
    def burn_in(self) -> int:
        return self.network.burn_in

    def outputs(self, obs: NDArray[Any], envs: Sequence[int] | None = None) -> FloatArray:
        """Return the outputs [N, n_outputs] for observations [N, obs_dim].

        envs: N envs, whose states the network begins with, and which stay as they are; None: each
        observation is the first of an episode.
        """
        if envs is None or not self.network.memory_size:
            numbers, mask = self._seen(obs)
            return masked(self.network.forward(self.parameters.layers, numbers), mask)
        return self._after(obs, envs)[0]

    def _seen(self, obs: NDArray[Any]) -> tuple[FloatArray, NDArray[Any] | None]:
        """Return what the network sees of observations, and their masks, if they have any."""
        parameters, mask = self.parameters, None
        if parameters.masked:
            n_inputs = self.network.n_inputs
            obs, mask = obs[:, :n_inputs], obs[:, n_inputs:]
        if parameters.obs_mean is not None and parameters.obs_scale is not None:
            limit = self.network.limit
            obs = normalised_obs(obs, parameters.obs_mean, parameters.obs_scale, limit)
        if mask is not None and self.network.sees_mask:
            obs = np.concatenate([obs, mask], axis=1)
        # Rows of another layout in memory would be summed in another order.
        return np.ascontiguousarray(obs, np.float32), mask

    def _prepare(self, obs: NDArray[Any]) -> Prepared:
        return self.distribution.prepare(self.outputs(obs), self.parameters.log_std)

    def act_batch(self, obs: NDArray[Any], randoms: Sequence[np.random.Generator]) -> Choice:
        """Return actions and log-probabilities float32 [N] for observations [N, obs_dim], each of
        them the first of an episode if the network has a state.

        Row `n` draws `distribution.n_draws` numbers from `randoms[n]`: each episode has a random
        stream of its own.
        """
        if likely_repeats(obs, REMEMBERED_BYTES):
            prepared, rows = self._memory.recall(obs, self._prepare)
        else:
            prepared, rows = self._prepare(obs), np.arange(len(obs))
        return self._choice(prepared, rows, randoms)

    def _choice(
        self, prepared: Prepared, rows: Rows, randoms: Sequence[np.random.Generator]
    ) -> Choice:
        if self.greedy:
            return self.distribution.mode(prepared, rows)
        n_draws = self.distribution.n_draws
        if n_draws == 1:
            uniforms = np.array([random.random() for random in randoms])[:, None]
        else:
            uniforms = np.array([random.random(n_draws) for random in randoms])
        return self.distribution.sample(prepared, rows, uniforms)

    def reset(
        self, seed: int, env: int = 0, n_acted: int = 0, seen: NDArray[Any] | None = None
    ) -> None:
        if not self.greedy:
            # PCG64 can skip draws: the numbers of step `t` follow from the seed and `t` alone.
            bits = np.random.PCG64(seed)
            bits.advance(n_acted * self.distribution.n_draws)
            self._randoms[env] = np.random.Generator(bits)
        if self.network.memory_size:
            self.forget([env])
            for obs in () if seen is None else self._own(seen):
                self._go_on(obs[None], [env])

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        """Return actions and log-probabilities in these envs: see Actor. For one env, the
        observation may be [obs_dim]. Observations may hold what only the critic sees, too. Raises
        ValueError for other shapes."""
        obs = self._own(np.atleast_2d(obs))
        if obs.shape != (len(envs), self.obs_dim):
            raise ValueError(
                f"observations of shape {obs.shape}, not ({len(envs)}, {self.obs_dim})"
            )
        randoms = [] if self.greedy else [self._randoms[env] for env in envs]
        return self.act_in(obs, envs, randoms)

    def act_in(
        self, obs: NDArray[Any], envs: Sequence[int], randoms: Sequence[np.random.Generator]
    ) -> Choice:
        """Return what `act` returns, with the numbers of `randoms` instead of the policy's own."""
        if not self.network.memory_size:
            return self.act_batch(obs, randoms)
        outputs = self._go_on(obs, envs)
        prepared = self.distribution.prepare(outputs, self.parameters.log_std)
        return self._choice(prepared, np.arange(len(obs)), randoms)

    def forget(self, envs: Iterable[int]) -> None:
        """Set the states of these envs to those at the beginning of an episode."""
        for env in envs:
            self._states.pop(env, None)

    def _own(self, obs: NDArray[Any]) -> NDArray[Any]:
        """Return observations [M, D] without what only the critic sees, if that is there."""
        n_inputs, n_further = self.network.n_inputs, self.parameters.n_further
        if not n_further or obs.shape[1] != self.obs_dim + n_further:
            return obs
        return np.delete(obs, slice(n_inputs, n_inputs + n_further), axis=1)

    def _go_on(self, obs: NDArray[Any], envs: Sequence[int]) -> FloatArray:
        """Return the outputs for these envs' observations, and move their states on."""
        outputs, states = self._after(obs, envs)
        self._states.update(zip(envs, states, strict=True))
        return outputs

    def _after(self, obs: NDArray[Any], envs: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """Return the outputs for these envs' observations, and the states after them."""
        numbers, mask = self._seen(obs)
        begin = np.zeros(self.network.memory_size, np.float32)
        states = np.stack([self._states.get(env, begin) for env in envs])
        outputs, states = self.network.step(self.parameters.layers, numbers, states)
        return masked(outputs, mask), states


class _Memory:
    """What a policy has computed for the observations that it has seen, a row each.

    Threads may share a memory. A copy or a pickle of a memory is empty.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forget(None)

    def _forget(self, dtype: np.dtype[Any] | None) -> None:
        # The same bytes are other numbers in another type.
        self._dtype = dtype
        self._row_of: dict[bytes, int] = {}
        # New columns: other threads may still read the old ones, whose rows never change.
        self._columns: Prepared = ()

    def __reduce__(self) -> tuple[type[_Memory], tuple[()]]:
        return _Memory, ()

    def recall(
        self, obs: NDArray[Any], prepare: Callable[[NDArray[Any]], Prepared]
    ) -> tuple[Prepared, Rows]:
        """Return all that is remembered, and the row of each observation [N, D].

        New observations are added with what `prepare` computes for them.
        """
        obs = np.ascontiguousarray(obs)
        keys = obs.view(np.dtype((np.void, obs.itemsize * obs.shape[1])))[:, 0].tolist()
        with self._lock:
            if obs.dtype != self._dtype:
                self._forget(obs.dtype)
            rows = [*map(self._row_of.get, keys)]
            if None in rows:
                new = {key: n for n, key in enumerate(keys) if rows[n] is None}
                most = min(REMEMBERED_OBSERVATIONS, REMEMBERED_IN_ALL // len(keys[0]))
                if len(self._row_of) + len(new) > most:
                    self._forget(obs.dtype)
                    new = {key: n for n, key in enumerate(keys)}
                self._add(list(new), prepare(obs[list(new.values())]))
                rows = [*map(self._row_of.__getitem__, keys)]
            return self._columns, np.array(rows, np.int64)

    def _add(self, keys: Sequence[bytes], prepared: Prepared) -> None:
        start = len(self._row_of)
        end = start + len(keys)
        self._columns = self._columns or tuple(column[:0] for column in prepared)
        if end > len(self._columns[0]):
            self._columns = tuple(_grown(column, 2 * end) for column in self._columns)
        for column, rows in zip(self._columns, prepared, strict=True):
            column[start:end] = rows
        self._row_of.update(zip(keys, range(start, end), strict=True))


def _grown(rows: NDArray[Any], size: int) -> NDArray[Any]:
    larger = np.empty((size, *rows.shape[1:]), rows.dtype)
    larger[: len(rows)] = rows
    return larger
