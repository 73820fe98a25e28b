"""What Blue's policy sees of any network, and what it chooses from: the same for each host.

What the policy sees of a host are its four bits, facts about the host that the scenario decides,
such as its worth and what Red can attack on it, and, with the observation `history`, what Blue has
seen and done there and around. No bit tells which host it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.agents.policies.entity_layout import EntityLayout
from workflow_rl.cage2.actions import BLUE, BY_HOST, DECOYS, EXPLOITS
from workflow_rl.cage2.agent.action_sets import (
    ActionsBesideDecoys,
    ActionSet,
    BlueActions,
    Indices,
    decoys_beside,
    verbs_of,
    with_rows,
)
from workflow_rl.cage2.agent.history_counts import (
    AGES,
    COUNTS,
    EXPLOITED,
    N_EVENTS,
    NEVER,
    HistoryCounts,
    ages_shown,
)
from workflow_rl.cage2.agent.views import Bits, View
from workflow_rl.cage2.attack_graph import Reach, attack_graph
from workflow_rl.cage2.b_line_plan import GOAL
from workflow_rl.cage2.compiled import tables
from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import WORTH_IN_TENTHS

if TYPE_CHECKING:
    from workflow_rl.agents.policies.numpy_policy import NumpyPolicy

WORTHS = tuple(WORTH_IN_TENTHS)
DEPTHS = (1, 2, 3, 4)
"""How far Red has to come to reach a host: shown by whether it is at least each of these."""
N_FACTS = 1 + len(WORTHS) + 1 + len(WORTHS) + 1 + len(EXPLOITS) + 5 + len(DEPTHS)
"""Bits about a host that never change in a network. The first tells that the host exists."""
N_BITS = 4 + N_FACTS
_ONES = np.array([bin(mask).count("1") for mask in range(1 << tables.N_DECOYS)])
STEPS = (1, 2, 3, 4, 6, 10, 20, 40)
"""The time is shown by whether at least so many steps are over."""
N_HISTORY = (N_EVENTS + 2) * (len(AGES) + 1) + 6 * len(COUNTS) + 3 * tables.N_DECOYS
"""Bits about the past of a host."""
N_OF_ALL = len(COUNTS) + len(STEPS)
"""Bits about the past of the whole network."""


class NetworkFacts:
    """What Blue knows of K scenarios. Of Blue's kinds of actions, some may lack in some of them.

    tells_edges: whether a view ends with `joined`, as policies of a family see it; by default if
    there are several scenarios. See `known_for`.

    Attributes:
        n_hosts: H, of the largest.
        scenarios: the same with all kinds of actions, as one simulator plays them.
        named, host_names: Blue's actions and the hosts by name, in a network of that size.
        kinds, hosts: of each of these actions, `[A]`.
        facts: uint8 `[K, H, N_FACTS]`, see `facts_of`.
        contested: bool `[K, H]`, the hosts that Red can take and Blue can free.
        joined: bool `[K, 2, H, H]`, whether two hosts share a subnet, and whether the first leads
            Red to the second.
        fits: see `BlueActions`.
        can: bool `[K, kinds]`, which kinds of actions Blue has in each.
    """

    def __init__(self, scenarios: Sequence[Scenario], tells_edges: bool | None = None) -> None:
        self.tells_edges = len(scenarios) > 1 if tells_edges is None else tells_edges
        kinds = max((scenario.kinds_of_action for scenario in scenarios), key=len)
        self.scenarios = tuple(
            scenario if scenario.kinds_of_action == kinds else scenario.let_blue(kinds)
            for scenario in scenarios
        )
        self.can = np.array([[k in s.kinds_of_action for k in tables.KINDS] for s in scenarios])
        largest = max(self.scenarios, key=lambda scenario: len(scenario.hosts))
        of, self.named, self.host_names = tables_of(largest).of, largest.action_names, largest.hosts
        self.kinds, self.hosts = of["action_kind"], of["action_host"]
        self.n_hosts = n = len(largest.hosts)
        self.is_misinforming = not any(map(self.has, DECOYS)) and self.has("Misinform")
        shape = len(scenarios), n
        self.facts = np.zeros((*shape, N_FACTS), np.uint8)
        self.contested = np.zeros(shape, np.bool_)
        self.fits = np.zeros(shape, np.int64)
        self.joined = np.zeros((len(scenarios), 2, n, n), np.bool_)
        for number, scenario in enumerate(scenarios):
            graph, size = attack_graph(scenario), len(scenario.hosts)
            self.facts[number, :size] = facts_of(scenario, graph)
            self.contested[number, :size] = [
                reach.is_held and host != scenario.red_host for host, reach in graph.items()
            ]
            joined = joined_hosts(scenario)
            self.joined[number, :, :size, :size] = joined["subnet"], joined["leads to"]
            self.fits[number, :size] = self._decoys_that_fit(scenario)

    def has(self, kind: str) -> bool:
        """Return whether Blue has actions of a kind in some of the scenarios."""
        return tables.KINDS.index(kind) in self.kinds

    def of_kind(self, kind: str) -> Indices:
        """Return the actions of a kind, by host; those of the first kind if Blue has none."""
        actions = np.flatnonzero(self.kinds == tables.KINDS.index(kind))
        return actions if len(actions) else np.zeros(self.n_hosts, np.int64)

    @property
    def exists(self) -> NDArray[np.bool_]:
        """Which hosts exist, `[K, H]`."""
        return self.facts[:, :, 0] > 0

    def _decoys_that_fit(self, scenario: Scenario) -> Indices:
        of = tables_of(scenario)
        if not self.is_misinforming:
            can = of.decoy_fits & [kind in scenario.kinds_of_action for kind in DECOYS]
            return can @ (1 << np.arange(tables.N_DECOYS))
        ports = tables.DECOY_FREE_PORT[tables.MISINFORM_KINDS]
        is_free = of.of["listening_ports"][:, None] >> ports & 1 == 0
        return (1 << is_free.sum(axis=1)) - 1

    def blue(self, playing: Indices | None) -> BlueActions:
        """Return what decides Blue's actions. playing: see `BlueActions`."""
        return BlueActions(self.kinds, self.hosts, self.fits, self.is_misinforming, playing)

    def view(self, observation: str, playing: Indices | None = None) -> KnownView:
        """Return what Blue sees, one of VIEWS."""
        return VIEWS[observation](self, playing)

    def action_set(self, name: str, playing: Indices | None = None) -> ActionSet:
        """Return what Blue chooses from, one of ACTIONS."""
        return ACTIONS[name](self, playing)


def joined_hosts(scenario: Scenario) -> dict[str, NDArray[np.bool_]]:
    """Return which hosts [H, H] share a subnet, be they two or one; which ones lead Red to which
    others; and the inverse of that."""
    hosts, n = scenario.hosts, len(scenario.hosts)
    subnet, leads = np.zeros((2, n, n), np.bool_)
    for of_subnet in scenario.subnets.values():
        numbers = [hosts.index(host) for host in of_subnet]
        subnet[np.ix_(numbers, numbers)] = True
    for host, others in scenario.leads_to.items():
        leads[hosts.index(host), [hosts.index(other) for other in others]] = True
    return {"subnet": subnet, "leads to": leads, "led to": leads.T}


def facts_of(scenario: Scenario, graph: Mapping[str, Reach]) -> NDArray[np.uint8]:
    """Return the facts about each host, `[H, N_FACTS]`: whether it exists, its confidentiality,
    whether it has an OT service and what that is worth, whether it runs Windows, what Red can
    exploit, and whether it is Red's own, beside it, behind a closed door, leads to the goal, and
    can be taken; and how far it is from Red. graph: of the scenario."""
    described = scenario.description()
    of = tables_of(scenario).of
    subnet_of = scenario.subnet_of
    home = subnet_of[scenario.red_host]
    depths = _depths(scenario, graph)
    rows = []
    for number, (host, facts) in enumerate(described["Hosts"].items()):
        has_ot = host in scenario.ot_hosts
        available = facts.get("AvailabilityValue", "Low") if has_ot else None
        rule = described["Subnets"][subnet_of[host]]["NACLs"].get(home, {"in": "all"})
        rows.append(
            [
                True,
                *(worth == facts.get("ConfidentialityValue", "Low") for worth in WORTHS),
                has_ot,
                *(worth == available for worth in WORTHS),
                facts["System info"]["OSType"].lower() == "windows",
                *(of["vulnerability"][number] > 0),
                host == scenario.red_host,
                subnet_of[host] == home,
                rule["in"] == "None",
                GOAL in facts.get("info", {}),
                graph[host].is_held,
                *(depths.get(host, max(DEPTHS)) >= depth for depth in DEPTHS),
            ]
        )
    return np.array(rows, np.uint8)


def _depths(scenario: Scenario, graph: Mapping[str, Reach]) -> dict[str, int]:
    """Return how many hosts Red has to take before each one, for those that Red finds.

    Red finds a host on another one, or by a scan of its subnet, which takes a host that led there.
    """
    # Those of hosts, and of subnets: the fewest hosts that Red takes to find another one there.
    depths, opened = {scenario.red_host: 0}, {scenario.subnet_of[scenario.red_host]: 0}
    for depth in range(1, len(graph) + 1):
        at_once = {
            host
            for host, reach in graph.items()
            if host not in depths and any(a in depths or a in opened for a in reach.found_from)
        }
        depths |= dict.fromkeys(at_once, depth)
        for name, hosts in scenario.subnets.items():
            if not at_once.isdisjoint(hosts):
                opened.setdefault(name, depth)
    return depths


class KnownView(View):
    """What Blue sees of known networks: the bits of each host, and facts. See `NetworkFacts.blue`
    about `playing`."""

    n_history = n_of_all = 0

    def __init__(self, known: NetworkFacts, playing: Indices | None = None) -> None:
        self._known, self._blue = known, known.blue(playing)

    def begin(self, envs: Sequence[int], obs: Bits) -> Bits:
        return self._with_edges(envs, self._rows(envs, obs))

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> Bits:
        return self.begin(envs, obs)

    def _joined(self, envs: Sequence[int]) -> NDArray[np.bool_]:
        return self._known.joined[self._blue.scenarios(envs)]

    def _with_edges(self, envs: Sequence[int], *parts: NDArray[Any]) -> Bits:
        """Return parts of what Blue sees, and which hosts are joined, `[M, D]`."""
        edges = [self._joined(envs)] * self._known.tells_edges
        flat = [part.reshape(len(envs), -1) for part in (*parts, *edges)]
        return np.concatenate(flat, axis=1, dtype=np.uint8, casting="unsafe")

    def _rows(self, envs: Sequence[int], obs: Bits) -> Bits:
        """Return the bits of hosts, `[M, H, N_BITS]`."""
        bits = obs.reshape(len(obs), -1, 4)
        return np.concatenate([bits, self._known.facts[self._blue.scenarios(envs)]], axis=2)


class HistoryView(KnownView):
    """The same, and what Blue has seen and done on each host, on those that lead there, and in its
    subnet. Supposes nothing about Red's program."""

    n_history, n_of_all = N_HISTORY, N_OF_ALL

    def __init__(self, known: NetworkFacts, playing: Indices | None = None) -> None:
        super().__init__(known, playing)
        self._history = HistoryCounts(self._blue)
        self._n_steps = np.zeros(0, np.int64)

    def begin(self, envs: Sequence[int], obs: Bits) -> Bits:
        self._n_steps = with_rows(self._n_steps, max(envs) + 1)
        self._n_steps[envs] = 0
        self._history.forget(envs)
        return self._shown(envs, obs)

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> Bits:
        self._n_steps[envs] += 1
        self._history.note(envs, actions, obs)
        return self._shown(envs, obs)

    def _shown(self, envs: Sequence[int], obs: Bits) -> Bits:
        seen = self._history.of(envs)
        exploited = seen.ages[:, EXPLOITED, :, None]
        around = [
            np.where(near, exploited, NEVER).min(axis=1)
            for near in self._joined(envs).transpose(1, 0, 2, 3)[::-1]
        ]
        ages = np.concatenate([seen.ages, np.stack(around, axis=1)], axis=1)
        decoys = seen.decoys, seen.at_last, seen.at_all
        useful = self._blue.useful(envs, seen.decoys)
        n_decoys = [_ONES[masks] for masks in (useful, *decoys[:2])]
        counts = [*seen.counts.transpose(1, 0, 2), seen.quiet, *n_decoys]
        # Decoys that are alike have no kinds.
        kinds = np.stack(decoys, axis=2) * (not self._blue.are_alike)
        of_hosts = [
            ages_shown(ages.transpose(0, 2, 1)),
            np.stack(counts, axis=2)[..., None] >= COUNTS,
            kinds[..., None] >> np.arange(tables.N_DECOYS) & 1,
        ]
        shape = len(envs), self._known.n_hosts, -1
        rows = [self._rows(envs, obs), *(part.reshape(shape) for part in of_hosts)]
        of_all = [seen.quiet_steps[:, None] >= COUNTS, self._n_steps[envs, None] >= STEPS]
        shown = np.concatenate(rows, axis=2, dtype=np.uint8, casting="unsafe")
        return self._with_edges(envs, shown, *of_all)


class KnownActions(ActionSet):
    """All actions, with masks of those on hosts that exist."""

    has_masks = True

    def __init__(self, known: NetworkFacts, playing: Indices | None = None) -> None:
        super().__init__(np.arange(len(known.kinds)))
        self._blue = known.blue(playing)
        on_host = np.array([kind.on_host for kind in BLUE.values()])
        is_plain = ~on_host[known.kinds]
        can = known.can[:, known.kinds] & (is_plain | known.exists[:, known.hosts])
        self._masks = can.astype(np.uint8)
        self.named = known.named

    def with_masks(self, obs: Bits, envs: Sequence[int]) -> Bits:
        return np.concatenate([obs, self._masks[self._blue.scenarios(envs)]], axis=1)


class KnownActionsByHost(ActionsBesideDecoys):
    """Sleep, and BY_HOST on each host, with masks of those that can do any good.

    NEXT_DECOY sets up the next possible decoy, in the order in which Red falls for them. Where Blue
    has no action but Misinform for it, it is that.
    """

    has_masks = True

    def __init__(self, known: NetworkFacts, playing: Indices | None = None) -> None:
        self._known, self._blue, n = known, known.blue(playing), known.n_hosts
        fixed = [known.of_kind(kind) for kind in BY_HOST[:-1]]
        sleep = known.of_kind("Sleep")[:1]
        super().__init__(np.concatenate([sleep, *fixed, -1 - np.arange(n)]), self._blue)
        decoys = ("Misinform",) if known.is_misinforming else DECOYS
        self._decoy_actions = np.stack([known.of_kind(kind) for kind in decoys])
        self._can = known.can[:, [tables.KINDS.index(kind) for kind in BY_HOST[:-1]]]
        self.named = (
            "Sleep",
            *(f"{kind} {host}" for kind in BY_HOST for host in known.host_names),
        )

    def chosen(self, envs: Sequence[int], choices: Actions) -> Indices:
        actions = super().chosen(envs, choices)
        hosts = np.where(actions < 0, -1 - actions, 0)
        useful = self._blue.useful(envs, self._decoys[envs])[np.arange(len(hosts)), hosts]
        first = 0 if self._blue.are_alike else decoys_beside()[2][useful]
        following = np.where(useful > 0, self._decoy_actions[first, hosts], self.actions[0])
        return np.where(actions < 0, following, actions)

    def with_masks(self, obs: Bits, envs: Sequence[int]) -> Bits:
        scenarios = self._blue.scenarios(envs)
        contested = self._known.contested[scenarios]
        fixed = contested[:, None] & self._can[scenarios, :, None]
        decoys = contested & (self._blue.useful(envs, self._decoys[envs]) > 0)
        masks = [np.ones((len(obs), 1)), fixed.reshape(len(obs), -1), decoys]
        return np.concatenate([obs, *masks], axis=1, dtype=np.uint8, casting="unsafe")


VIEWS = {"table": KnownView, "history": HistoryView}
ACTIONS: dict[str, type[KnownActions | KnownActionsByHost]] = {
    "all": KnownActions,
    "by-host": KnownActionsByHost,
}


def layout_of_hosts(
    known: NetworkFacts, observation: str = "table", actions: str = "all"
) -> EntityLayout:
    """Return the layout of what a view shows, and of what a policy chooses from."""
    view, n = VIEWS[observation], known.n_hosts
    per_host = N_BITS + view.n_history
    columns = np.arange(per_host * n).reshape(n, per_host)
    # The bit that tells that a host exists comes first of its facts.
    features = np.delete(columns, 4, axis=1)
    n_inputs = columns.size + view.n_of_all
    layout = {
        "features": features,
        "actions": verbs_of(ACTIONS[actions](known).named, known.host_names),
        "present": columns[:, 4],
    }
    if known.tells_edges:
        of_subnet, leads = n_inputs + np.arange(2 * n**2).reshape(2, n, n)
        edges = {"subnet": of_subnet, "leads to": leads, "led to": leads.T}
        layout["edges"] = {name: _pairs(table) for name, table in edges.items()}
        n_inputs += 2 * n**2
    elif len(known.scenarios) == 1:
        joined = joined_hosts(known.scenarios[0])
        layout["edges"] = {name: np.argwhere(pairs) for name, pairs in joined.items()}
    return EntityLayout(n_inputs, layout)


def known_for(policy: NumpyPolicy, scenarios: Sequence[Scenario]) -> NetworkFacts:
    """Return what a policy is to know of scenarios, which sees edges if it has learned to."""
    edges = policy.parameters.network_args.get("layout", {}).get("edges", {})
    tells_edges = any(column >= 0 for rows in edges.values() for *_, column in rows)
    return NetworkFacts(scenarios, tells_edges)


def _pairs(columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return rows of a host, another one or the same, and the number at their place in a table."""
    host, other = np.indices(columns.shape)
    return np.stack([host, other, columns], axis=2).reshape(-1, 3)
