"""The champion's decisions in many episodes at once: `memory` and `network` in compiled code."""

from __future__ import annotations

import inspect
from importlib.util import find_spec, module_from_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.agent import champion_network as net
from workflow_rl.cage4.agent.champion import FIRST_ACTION
from workflow_rl.cage4.agent.memory import (
    N_AGENTS,
    N_CONTEXT,
    N_FEATURES,
    N_HOSTS,
    ZONE_COUNT,
)
from workflow_rl.cage4.compiled.jit import agent_entry_point, compiled
from workflow_rl.cage4.scenario4 import SLEEP_ACTIONS

MOST_HOSTS = 3 * N_HOSTS
GREEDY, SAMPLED, TAUGHT = range(3)
SLEEPING = np.array(SLEEP_ACTIONS)


def _compiled_module(name: str) -> Any:
    """Return a second copy of a module whose functions are compiled. The first stays as it is."""
    spec = find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    copy = module_from_spec(spec)
    spec.loader.exec_module(copy)
    for function, body in inspect.getmembers(copy, inspect.isfunction):
        setattr(copy, function, compiled(body))
    return copy


_memory = _compiled_module("workflow_rl.cage4.agent.memory")
begin, read, may_act, find_options, describe, start = (
    _memory.begin,
    _memory.read_observations,
    _memory.may_act,
    _memory.find_options,
    _memory.describe,
    _memory.start,
)


class Decisions(NamedTuple):
    """Room for C decisions of agents with h hosts.

    hosts: `[C, h, F]`. context: `[C, F]`. options: `[C, 1 + 2 h]`. where: `[C, 4]`, what was
    chosen, episode, agent and step. log_prob: `[C]`. n: `[1]`, how many there are.
    """

    hosts: NDArray[np.float32]
    context: NDArray[np.float32]
    options: NDArray[np.bool_]
    where: NDArray[np.int64]
    log_prob: NDArray[np.float32]
    n: NDArray[np.int64]


def decision_room(count: int, n_hosts: int) -> Decisions:
    """Return room for `count` decisions."""
    return Decisions(
        np.zeros((count, n_hosts, N_FEATURES), np.float32),
        np.zeros((count, N_CONTEXT), np.float32),
        np.zeros((count, 1 + 2 * n_hosts), np.bool_),
        np.zeros((count, 4), np.int64),
        np.zeros(count, np.float32),
        np.zeros(1, np.int64),
    )


@compiled
def add_product(x: Any, matrix: Any, out: Any) -> None:
    """Add x `[n]` @ matrix `[n, m]` to out `[m]`."""
    for i in range(len(x)):
        if x[i] != 0:
            for j in range(matrix.shape[1]):
                out[j] += x[i] * matrix[i, j]


@compiled
def forward(w: Any, hosts: Any, context: Any, options: Any, first: Any, out: Any) -> None:
    """`champion_network.logits`, of the options alone. first: `[h, HIDDEN]`, working space."""
    n = len(hosts)
    base, mixed = w[net.HOST_BIAS].copy(), w[net.MIXED_BIAS].copy()
    waiting = w[net.WAIT_BIAS].copy()
    pool, row = np.zeros(2 * net.HIDDEN, np.float32), np.zeros(net.HIDDEN, np.float32)
    add_product(context, w[net.HOST_CONTEXT], base)
    for i in range(n):
        first[i] = 0
        if hosts[i, 0] > 0:
            first[i] = base
            add_product(hosts[i], w[net.HOST], first[i])
            for j in range(net.HIDDEN):
                first[i, j] = max(first[i, j], np.float32(0))
                pool[j] += first[i, j] / np.float32(net.POOLED)
                pool[net.HIDDEN + j] = max(pool[net.HIDDEN + j], first[i, j])
    add_product(context, w[net.MIXED_CONTEXT], mixed)
    add_product(pool, w[net.MIXED_POOL], mixed)
    add_product(context, w[net.WAIT_CONTEXT], waiting)
    add_product(pool, w[net.WAIT], waiting)
    out[0] = 0
    for j in range(net.HIDDEN):
        out[0] += max(waiting[j], np.float32(0)) * w[net.WAIT_OUT][j, 0]
    for i in range(n):
        if options[1 + i] or options[1 + n + i]:
            row[:] = mixed
            add_product(first[i], w[net.MIXED], row)
            out[1 + i], out[1 + n + i] = w[net.ACT_BIAS][0], w[net.ACT_BIAS][1]
            for j in range(net.HIDDEN):
                value = max(row[j], np.float32(0))
                out[1 + i] += value * w[net.ACT][j, 0]
                out[1 + n + i] += value * w[net.ACT][j, 1]


@compiled
def choose(out: Any, options: Any, is_sampled: bool) -> tuple[int, float]:
    """Return an option and the logarithm of its probability."""
    chosen, best, total = 0, -np.inf, 0.0
    for i in range(len(options)):
        if options[i]:
            total += np.exp(out[i])
            score = out[i] - np.log(-np.log(np.random.random())) if is_sampled else out[i]
            if score > best:
                chosen, best = i, score
    return chosen, out[chosen] - np.log(total)


@compiled
def keep(room: Any, hosts: Any, context: Any, options: Any, log_prob: float) -> int:
    """Keep a decision. Returns its place."""
    at = room.n[0]
    room.hosts[at] = hosts
    room.context[at] = context
    room.options[at] = options
    room.log_prob[at] = log_prob
    room.n[0] = at + 1
    return at


@agent_entry_point
def begin_all(memories: Any, masks: Any) -> None:
    """Begin N episodes. memories: MEMORY `[N]`. masks: bool `[N, 570]`."""
    for i in range(len(memories)):
        begin(memories[i], masks[i])


@agent_entry_point
def seed_draws(number: int) -> None:
    """Seed the draws of `decide`."""
    np.random.seed(number)


@agent_entry_point
def decide(
    memories: Any,
    obs: Any,
    weights: Any,
    mode: int,
    taught: Any,
    kept_rate: float,
    rooms: Any,
    actions: Any,
) -> None:
    """Read N observations and choose actions `[N, 5]`.

    obs: int8 `[N, 578]`. weights: of the two networks. mode: GREEDY, SAMPLED or TAUGHT. taught:
    `[N, 5]`, what is done in that last mode. kept_rate: the share of the decisions to wait that
    `rooms`, two Decisions, keep; negative keeps no decisions.
    """
    hosts = np.zeros((MOST_HOSTS, N_FEATURES), np.float32)
    first = np.zeros((MOST_HOSTS, net.HIDDEN), np.float32)
    context, out = np.zeros(N_CONTEXT, np.float32), np.zeros(1 + 2 * MOST_HOSTS, np.float32)
    found = np.zeros(1 + 2 * MOST_HOSTS, np.bool_)
    for i in range(len(memories)):
        m = memories[i]
        read(m, obs[i])
        for agent in range(N_AGENTS):
            actions[i, agent] = SLEEPING[agent]
            n = ZONE_COUNT[agent] * N_HOSTS
            options = found[: 1 + 2 * n]
            chosen, log_prob = 0, 0.0
            if mode == TAUGHT and m.busy[agent] == 0:
                for kind in range(2):
                    at = taught[i, agent] - FIRST_ACTION[agent, kind]
                    if 0 <= at < n:
                        chosen = 1 + kind * n + at
            is_due = may_act(m, agent) and find_options(m, agent, options)
            if is_due:
                describe(m, agent, hosts[:n], context)
                if mode != TAUGHT:
                    network = weights[0] if agent < N_AGENTS - 1 else weights[1]
                    forward(network, hosts[:n], context, options, first, out)
                    chosen, log_prob = choose(out, options, mode == SAMPLED)
                if options[chosen] and (chosen > 0 or np.random.random() < kept_rate):
                    room = rooms[0] if agent < N_AGENTS - 1 else rooms[1]
                    if kept_rate >= 0 and room.n[0] < len(room.log_prob):
                        at = keep(room, hosts[:n], context, options, log_prob)
                        room.where[at, 0], room.where[at, 1] = chosen, i
                        room.where[at, 2], room.where[at, 3] = agent, m.step - 1
            if chosen > 0:
                kind, host = (chosen - 1) // n, (chosen - 1) % n
                actions[i, agent] = FIRST_ACTION[agent, kind] + host
                start(m, agent, host, kind == 1)
