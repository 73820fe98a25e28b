"""The actor that chooses actions in workers. It needs no torch."""

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
    """A player in any number of envs.

    Its actions in an env depend only on the seed and the observations of this env. Threads may
    share a thread-safe actor, if each thread plays in its own envs.
    """

    policy_version: int

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        """Begin an episode in env number `env`. `seed` determines the random choices.

        n_acted: how often another actor has already acted in the episode. An actor with a
        `burn_in`, see `burn_in_of`, has a further argument `seen`: the episode's last observations
        before this actor, [K, D], oldest first, or None.
        """

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        """Return an action for each observation [M, D] in `envs`, and the actions'
        log-probabilities, float32 [M]."""


class Policy(Actor, Protocol):
    """An actor whose actions depend on arrays. masked: whether observations end with masks. greedy:
    whether the actor chooses the likeliest actions."""

    greedy: bool

    @property
    def parameters(self) -> Parameters: ...

    @property
    def masked(self) -> bool: ...


class Parameters(Protocol):
    """The plain arrays that determine a policy's actions."""

    def actor(self, policy_version: int = 0, greedy: bool = False) -> Policy:
        """Return the policy with these parameters. greedy: see Policy."""

    def player(self, policy_version: int = 0, greedy: bool | None = None) -> Policy:
        """Return the policy for playing after training. greedy: by default, the agent's choice."""

    def to_be_sampled(self) -> Parameters:
        """Return the parameters of a player that samples its actions."""

    def packed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return plain settings by name, and arrays by name, for files."""


def burn_in_of(actor: Actor) -> int:
    """Return how many of an episode's last observations an actor needs to recompute its state."""
    burn_in: int = getattr(actor, "burn_in", 0)
    return burn_in


class PolicyParameters(NamedTuple):
    """The float32 arrays and the settings that determine an actor's actions.

    weights, biases: see `network.Layers`. log_std: [K], if the distribution has one. obs_mean,
    obs_scale: [D] or None. The network sees (observation - obs_mean) * obs_scale, clipped to the
    network's `limit`, or observations unchanged. distribution: None is Categorical over the
    outputs. network: a key of `networks.NETWORKS`. network_args: further fields of this kind.
    masked: whether observations end with a mask, see `distributions`. n_further: the number of
    values for the critic only that may be before the mask. sampled: whether the agent samples its
    actions after training: see `player`.
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

    def obs_dim_of(self, network: Network) -> int:
        """Return the size of an observation with its mask. network: see `described`."""
        return network.n_inputs + (network.n_outputs if self.masked else 0)


def normalised_obs(
    obs: NDArray[Any],
    mean: FloatArray,
    scale: FloatArray,
    limit: FloatArray | np.float32 = OBS_LIMIT,
) -> FloatArray:
    """Return observations [N, D] shifted, scaled, and clipped to the limit on both sides."""
    shifted = (obs.astype(np.float32) - mean) * scale
    # np.clip takes three times as long.
    return np.minimum(np.maximum(shifted, -limit), limit)


def likely_repeats(obs: NDArray[Any], most: int = REPEATING_BYTES) -> bool:
    """Whether observations [N, D] are likely to repeat bit for bit, as a few integers do, but not
    measurements or images. The answer depends only on type and size, so that runs do not differ."""
    return obs.dtype.kind in "biu" and obs.itemsize * obs.shape[1] <= most


class NumpyPolicy:
    """A policy: a network without torch, and a distribution over actions.

    An observation, with the network's state if it has one, gives equal outputs bit for bit in any
    batch. So a policy without a state can remember its results for an observation. For example,
    most observations of CAGE-2 repeat, and need no forward pass. Threads may share a policy: see
    Actor.
    """

    def __init__(
        self, parameters: PolicyParameters, policy_version: int = 0, greedy: bool = False
    ) -> None:
        self.parameters = parameters
        self.policy_version = policy_version
        self.greedy = greedy
        self.distribution = parameters.distribution or Categorical(self.network.n_outputs)
        self._randoms = {0: np.random.default_rng(0)}
        # The states by env. Before the first step of an episode, an env has no entry: zeros.
        self._states: dict[int, FloatArray] = {}
        self._memory = _Memory()

    def __getstate__(self) -> dict[str, Any]:
        # The dictionaries are copied, because another thread may begin an episode meanwhile.
        copies = {"_randoms": self._randoms.copy(), "_states": self._states.copy()}
        # The network is included, so that a worker imports the user's own class of networks.
        return {**vars(self), **copies, "network": self.network}

    @functools.cached_property
    def network(self) -> Network:
        """The network's description. Raises KeyError for a kind that only a file names."""
        return self.parameters.described()

    @functools.cached_property
    def obs_dim(self) -> int:
        """The size of an observation with its mask."""
        return self.parameters.obs_dim_of(self.network)

    @property
    def masked(self) -> bool:
        return self.parameters.masked

    @property
    def burn_in(self) -> int:
        return self.network.burn_in

    def outputs(self, obs: NDArray[Any], envs: Sequence[int] | None = None) -> FloatArray:
        """Return the outputs [N, n_outputs] for observations [N, obs_dim].

        envs: N envs with the network's states, which are not changed. None means that each
        observation is the first of an episode.
        """
        if envs is None or not self.network.memory_size:
            numbers, mask = self._seen(obs)
            return masked(self.network.forward(self.parameters.layers, numbers), mask)
        return self._after(obs, envs)[0]

    def _seen(self, obs: NDArray[Any]) -> tuple[FloatArray, NDArray[Any] | None]:
        """Return the network's inputs from observations, and the observations' masks, if any."""
        parameters, mask = self.parameters, None
        if parameters.masked:
            n_inputs = self.network.n_inputs
            obs, mask = obs[:, :n_inputs], obs[:, n_inputs:]
        if parameters.obs_mean is not None and parameters.obs_scale is not None:
            limit = self.network.limit
            obs = normalised_obs(obs, parameters.obs_mean, parameters.obs_scale, limit)
        if mask is not None and self.network.sees_mask:
            obs = np.concatenate([obs, mask], axis=1)
        # In another memory layout, rows would be summed in another order.
        return np.ascontiguousarray(obs, np.float32), mask

    def _prepare(self, obs: NDArray[Any]) -> Prepared:
        return self.distribution.prepare(self.outputs(obs), self.parameters.log_std)

    def act_batch(self, obs: NDArray[Any], randoms: Sequence[np.random.Generator]) -> Choice:
        """Return actions and log-probabilities float32 [N] for observations [N, obs_dim]. A network
        with a state takes each observation as the first of an episode.

        Row `n` draws `distribution.n_draws` numbers from `randoms[n]`: each episode has its own
        random numbers.
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
            # PCG64 can skip draws, so step `t`'s numbers depend only on the seed and `t`.
            bits = np.random.PCG64(seed)
            bits.advance(n_acted * self.distribution.n_draws)
            self._randoms[env] = np.random.Generator(bits)
        if self.network.memory_size:
            self.forget([env])
            for obs in () if seen is None else self._own(seen):
                self._go_on(obs[None], [env])

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        """Return actions and log-probabilities in these envs: see Actor. For one env, the
        observation may be [obs_dim]. Observations may include the values for the critic only.
        Raises ValueError for other shapes."""
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
        """Do the same as `act` with random numbers of `randoms` instead of the policy's own."""
        if not self.network.memory_size:
            return self.act_batch(obs, randoms)
        outputs = self._go_on(obs, envs)
        prepared = self.distribution.prepare(outputs, self.parameters.log_std)
        return self._choice(prepared, np.arange(len(obs)), randoms)

    def forget(self, envs: Iterable[int]) -> None:
        """Reset the states of these envs to an episode's beginning."""
        for env in envs:
            self._states.pop(env, None)

    def _own(self, obs: NDArray[Any]) -> NDArray[Any]:
        """Return observations [M, D] without values for the critic only, if they have any."""
        n_inputs, n_further = self.network.n_inputs, self.parameters.n_further
        if not n_further or obs.shape[1] != self.obs_dim + n_further:
            return obs
        return np.delete(obs, slice(n_inputs, n_inputs + n_further), axis=1)

    def _go_on(self, obs: NDArray[Any], envs: Sequence[int]) -> FloatArray:
        """Return the outputs for these envs' observations, and update the envs' states."""
        outputs, states = self._after(obs, envs)
        self._states.update(zip(envs, states, strict=True))
        return outputs

    def _after(self, obs: NDArray[Any], envs: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """Return the outputs for these envs' observations, and the states afterwards."""
        numbers, mask = self._seen(obs)
        begin = np.zeros(self.network.memory_size, np.float32)
        states = np.stack([self._states.get(env, begin) for env in envs])
        outputs, states = self.network.step(self.parameters.layers, numbers, states)
        return masked(outputs, mask), states


class _Memory:
    """A policy's results for the observations that it has seen, in a row for each observation.

    Threads may share a memory. A copy or a pickle of a memory is empty.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forget(None)

    def _forget(self, dtype: np.dtype[Any] | None) -> None:
        # Equal bytes mean different numbers in different types.
        self._dtype = dtype
        self._row_of: dict[bytes, int] = {}
        # New columns are made, because other threads may still read rows of the old columns.
        self._columns: Prepared = ()

    def __reduce__(self) -> tuple[type[_Memory], tuple[()]]:
        return _Memory, ()

    def recall(
        self, obs: NDArray[Any], prepare: Callable[[NDArray[Any]], Prepared]
    ) -> tuple[Prepared, Rows]:
        """Return all remembered results, and the row of each observation [N, D].

        Results of `prepare` for new observations are added.
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
