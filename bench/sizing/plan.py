"""SizingPlan: users per replica, replicas, GPUs and nodes for each layout.

The measured demand (what one mean episode asks) goes through the network of each engine; the users
of a replica are the most at which

1. every quantile objective on TTFT, TPOT or latency keeps its bound times the safety factor, and
2. the running requests fit in the KV cache and in max_num_seqs (bounds.py).

The plan checks itself: where it was measured, the predicted mean latency must lie within
`slo.plan_tolerance` of the measured one, else the row is rejected and names no users and no GPUs.

The network predicts means. A quantile is the predicted mean times an anchor: the quantile measured
at the level with the most users of that engine, over the mean predicted for that level. So the
shape of the distribution and the network's error at that load are carried along, and nothing else
is. An engine without a level borrows the largest anchor of those that are not rejected.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from bench.fit.law import Law
from bench.fit.level import Level
from bench.scenario import QUANTILE_METRICS, Direction, Engine, EngineKind, Objective, Slo
from bench.sizing.bounds import Bounds, bounds
from bench.sizing.coefficients import measured_step
from bench.sizing.demand import Demand, demand_of, why_no_demand
from bench.sizing.network import Network, State, has_coefficients
from bench.slo import NEVER, metric_values

MOST_USERS = 65_536  # of one replica: the search ends there
FEWEST_VALUES = 20  # that an anchor rests on
_SHIPPED = "shipped coefficients (simulated engine)"
_STATED = "stated coefficients"
_MEASURED = "measured laws"
TPOT_P50 = Objective(name="tpot_p50", metric="tpot_s", quantile=0.5, bound=math.inf)
LATENCY_P50 = Objective(name="latency_p50", metric="latency_s", quantile=0.5, bound=math.inf)


class PlanRow(msgspec.Struct, frozen=True, kw_only=True):
    """One layout (TP=2, TP=4, 2 x TP=2) at a target of active users."""

    layout: str
    gpus_per_replica_group: int
    users_per_group: int | None  # objectives predicted to hold; None: not even for one user
    measured_users: int | None  # the most users of a group that were measured; None: none were
    limiting: str  # in words
    tpot_s_p50: float | None
    latency_s_p50: float | None
    groups: int | None
    gpus: int | None
    nodes: int | None
    gpus_n_plus_1: int | None  # with one replica more
    nodes_n_plus_1: int | None
    source: str  # predicted | measured coefficients | ...
    rejected: str = ""  # why nothing is planned from this engine, though it was asked for


class SizingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """plan.json: the table, its assumptions and its label."""

    target_users: int
    gpus_per_node: int
    assumptions: dict[str, str]
    rows: list[PlanRow]
    notes: list[str]
    covered: list[str] = []  # objectives that the prediction keeps; the others it knows nothing of


class _Anchor(NamedTuple):
    """Measured quantile over predicted mean; `users` of the level, None when borrowed."""

    ratio: float
    users: int | None


class _Usable(NamedTuple):
    """An engine with coefficients, and where they come from."""

    engine: Engine
    source: str


class _Replica(NamedTuple):
    """What was found for one replica of one engine."""

    engine: Engine
    users: int | None
    limiting: str
    tpot_s_p50: float | None
    latency_s_p50: float | None
    measured_users: int | None
    source: str
    rejected: str = ""


def plan(
    engines: Sequence[Engine],
    levels: Sequence[Level],
    slo: Slo,
    target_users: int,
    gpus_per_node: int,
    think_s: float,
    safety: float,
    laws: Sequence[Law] = (),
) -> SizingPlan:
    """The sizing table for `target_users` active users (methods.md section 8).

    engines: one row each, and one row of smaller replicas for each larger one, at equal GPUs.
    levels: where the demand and the anchors were measured, only such as may be believed
    (`footing`); their engine is found by name.
    think_s: pause of a user between episodes. safety: share of each bound that a prediction may
    use. laws: fitted TTFT and TPOT laws, for engines that state no coefficients. Engines or
    levels that allow no prediction are named in `notes`; the plan exists always.
    """
    notes: list[str] = []
    demand = demand_of(levels)
    usable = _usable(engines, laws, notes)
    if demand is None:
        notes.append(f"no_demand: {why_no_demand(levels)}; so nothing could be sized")
        usable = []
    replicas: list[_Replica] = []
    covered: list[str] = []
    if demand is not None:
        networks = [Network(one.engine, demand, think_s) for one in usable]
        sizer = _Sizer(networks, levels, demand, slo, safety, notes)
        replicas = [
            sizer.replica(network, one.source)
            for network, one in zip(networks, usable, strict=True)
        ]
        covered = [objective.name for objective in sizer.objectives]
    rows = _rows(replicas, target_users, gpus_per_node)
    for row in rows:
        if row.groups is not None and row.nodes is None:
            notes.append(
                f"node_too_small: {row.layout} needs a replica on one node of {gpus_per_node} GPUs"
            )
    return SizingPlan(
        target_users=target_users,
        gpus_per_node=gpus_per_node,
        assumptions=_assumptions(demand, think_s, safety, slo.plan_tolerance),
        rows=rows,
        notes=notes,
        covered=covered,
    )


def _usable(engines: Sequence[Engine], laws: Sequence[Law], notes: list[str]) -> list[_Usable]:
    found: dict[str, _Usable] = {}
    for engine in engines:
        if engine.name in found:
            continue
        if engine.preset_ttft_ms:
            notes.append(f"preset: {engine.name} plays stated latencies; there is nothing to size")
            continue
        if has_coefficients(engine.step):
            simulated = engine.kind is EngineKind.simulated
            found[engine.name] = _Usable(engine, _SHIPPED if simulated else _STATED)
            continue
        step = measured_step(engine, laws)
        if step is not None and has_coefficients(step):
            found[engine.name] = _Usable(dataclasses.replace(engine, step=step), _MEASURED)
        else:
            mine = [law for law in laws if law.engine == engine.name and not law.accepted]
            why = "; ".join(f"{law.name}: {law.note}" for law in mine)
            notes.append(
                f"no_coefficients: {engine.name} states no step-time coefficients, and no accepted "
                f"TTFT and TPOT laws were measured{f' ({why})' if why else ''}"
            )
    return sorted(found.values(), key=lambda one: (one.engine.tensor_parallel, one.engine.name))


class _Sizer:
    """Finds the users of one replica; holds what all engines share."""

    def __init__(
        self,
        networks: Sequence[Network],
        levels: Sequence[Level],
        demand: Demand,
        slo: Slo,
        safety: float,
        notes: list[str],
    ) -> None:
        self._networks = networks
        self._levels = sorted(levels, key=lambda level: -level.users)
        self._demand = demand
        self._safety = safety
        self._notes = notes
        self._parts = {"": demand_of(levels, "all") or demand}
        self.objectives = self._predictable(slo, levels)
        self._off = {network.engine.name: self._compare(network, slo) for network in networks}

    def replica(self, network: Network, source: str) -> _Replica:
        """Users, limit and predicted p50s of one replica."""
        engine = network.engine
        limits = bounds(engine, self._demand.peak_context_tokens)
        checks = self._checks(network)
        rejected = self._off[engine.name]
        if self.objectives and not checks:
            rejected = rejected or "no objective has enough measured values to predict from"
        if rejected:
            return self._rejected(engine, rejected, source)
        users = _largest(lambda number: not self._broken(network, number, limits, checks))
        limiting = self._broken(network, users + 1, limits, checks) or "none found"
        if limits.cached_users is None:
            self._notes.append(
                f"kv_unknown: the KV capacity of {engine.name} is not known, so only max_num_seqs "
                "bounds its running requests; set engine.kv_tokens"
            )
        elif users > limits.cached_users:
            self._notes.append(
                f"cache_small: {engine.name} holds the contexts of {limits.cached_users} users; "
                f"with {users} the measured hit rate will not last"
            )
        state = network.solve(max(users, 1))
        return _Replica(
            engine=engine,
            users=users or None,
            limiting=limiting,
            tpot_s_p50=self._predict(network, state, TPOT_P50) if users else None,
            latency_s_p50=self._predict(network, state, LATENCY_P50) if users else None,
            measured_users=self._most_measured(engine),
            source=self._source(engine, users, source),
        )

    def _rejected(self, engine: Engine, why: str, source: str) -> _Replica:
        return _Replica(
            engine=engine,
            users=None,
            limiting=f"rejected: {why}",
            tpot_s_p50=None,
            latency_s_p50=None,
            measured_users=self._most_measured(engine),
            source=f"rejected: {source}",
            rejected=why,
        )

    def _most_measured(self, engine: Engine) -> int | None:
        return max((x.users for x in self._levels if x.engine == engine.name), default=None)

    def _checks(self, network: Network) -> list[tuple[Objective, _Anchor]]:
        checks = []
        for objective in self.objectives:
            anchor = self._anchor(network, objective)
            if anchor is None:
                self._notes.append(
                    f"not_planned: {objective.name} has fewer than {FEWEST_VALUES} measured "
                    f"values at every level, so it does not limit {network.engine.name}"
                )
            else:
                checks.append((objective, anchor))
        return checks

    def _predictable(self, slo: Slo, levels: Sequence[Level]) -> list[Objective]:
        """The objectives that the network can predict; the others are named in the notes."""
        found = []
        for objective in slo.objectives:
            part = self._parts.get(objective.workload) or demand_of(levels, objective.workload)
            timed = objective.metric in QUANTILE_METRICS and objective.metric != "tool_s"
            if timed and objective.direction is Direction.below and part is not None:
                self._parts[objective.workload] = part
                found.append(objective)
            else:
                self._notes.append(
                    f"not_planned: {objective.name} ({objective.metric}) is judged by "
                    "measurement; the network does not predict it"
                )
        return found

    def _broken(
        self,
        network: Network,
        users: int,
        limits: Bounds,
        checks: Sequence[tuple[Objective, _Anchor]],
    ) -> str:
        """Why `users` are too many for this replica, in words; empty when they are not."""
        state = network.solve(users)
        if limits.running < state.running:
            return (
                f"{limits.running_by}: {users} users need {state.running:.1f} running requests of "
                f"{self._demand.peak_context_tokens:.0f} tokens, {limits.running} fit"
            )
        worst, reason = 1.0, ""
        for objective, anchor in checks:
            predicted_s = anchor.ratio * self._mean_s(network, state, objective)
            allowed_s = objective.bound * self._safety
            if predicted_s > worst * allowed_s:
                worst = predicted_s / allowed_s
                reason = (
                    f"{_WORDS[objective.metric]} objective {objective.name}: {users} users give "
                    f"{predicted_s:.3g} s, {self._safety:g} of the bound is {allowed_s:.3g} s"
                )
        return reason

    def _mean_s(self, network: Network, state: State, objective: Objective) -> float:
        if objective.metric == "tpot_s":
            return state.itl_ms / 1e3
        ttft_s, latency_s = network.times(state, self._parts[objective.workload])
        return ttft_s if objective.metric == "ttft_s" else latency_s

    def _predict(self, network: Network, state: State, objective: Objective) -> float | None:
        anchor = self._anchor(network, objective)
        if anchor is None:
            return None
        return anchor.ratio * self._mean_s(network, state, objective)

    def _anchor(self, network: Network, objective: Objective) -> _Anchor | None:
        own = self._anchor_of(network, objective)
        if own is not None:
            return own
        trusted = [one for one in self._networks if not self._off[one.engine.name]]
        others = [self._anchor_of(other, objective) for other in trusted]
        ratios = [anchor.ratio for anchor in others if anchor is not None]
        return _Anchor(max(ratios), None) if ratios else None

    def _anchor_of(self, network: Network, objective: Objective) -> _Anchor | None:
        for level in self._levels:
            if level.engine != network.engine.name:
                continue
            values = metric_values(level, objective.metric, objective.workload).values
            good = [value for value in values if value < NEVER]
            if len(good) < FEWEST_VALUES or objective.quantile is None:
                continue
            mean_s = self._mean_s(network, network.solve(level.users), objective)
            if mean_s > 0:
                return _Anchor(float(np.quantile(good, objective.quantile)) / mean_s, level.users)
        return None

    def _compare(self, network: Network, slo: Slo) -> str:
        """A note on each measured level, predicted against measured mean; why it is too far off."""
        wrong = []
        for level in reversed(self._levels):
            if level.engine != network.engine.name:
                continue
            good = [v for v in metric_values(level, "latency_s").values if v < NEVER]
            if len(good) < FEWEST_VALUES:
                continue
            predicted_s = self._mean_s(network, network.solve(level.users), LATENCY_P50)
            measured_s = float(np.mean(good))
            off = predicted_s / measured_s - 1
            if abs(off) > slo.plan_tolerance:
                wrong.append(f"{off:+.0%} at {level.users} users")
            self._notes.append(
                f"check: {level.engine} at {level.users} users: mean episode latency predicted "
                f"{predicted_s:.3g} s, measured {measured_s:.3g} s "
                f"({off:+.0%})"
            )
        if not wrong:
            return ""
        return (
            f"the model does not reproduce the measurement: mean latency {', '.join(wrong)}, "
            f"{slo.plan_tolerance:.0%} is the tolerance"
        )

    def _source(self, engine: Engine, users: int, coefficients: str) -> str:
        measured = [level.users for level in self._levels if level.engine == engine.name]
        if not measured:
            return f"predicted from {coefficients}; this engine was not measured at a valid level"
        reach = "interpolated" if min(measured) <= users <= max(measured) else "extrapolated"
        span = f"{min(measured)} to {max(measured)} users"
        if min(measured) == max(measured):
            span = f"{measured[0]} users"
        return f"predicted from {coefficients}; {reach}, measured at {span}"


_WORDS = {
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "latency_s": "Latency",
    "ttfat_s": "Time to first answer token",
}


def _largest(holds: Callable[[int], bool]) -> int:
    """The largest number up to MOST_USERS for which `holds` (once false, false beyond); 0: none."""
    if not holds(1):
        return 0
    low = 1
    while low < MOST_USERS and holds(min(2 * low, MOST_USERS)):
        low = min(2 * low, MOST_USERS)
    high = min(2 * low, MOST_USERS + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _rows(replicas: Sequence[_Replica], target_users: int, gpus_per_node: int) -> list[PlanRow]:
    """One row per engine, then smaller replicas at the GPUs of each larger one."""
    sizes = [replica.engine.tensor_parallel for replica in replicas]
    rows = []
    for replica in replicas:
        named = sizes.count(replica.engine.tensor_parallel) > 1
        rows.append(_row(replica, 1, named, target_users, gpus_per_node))
    for small in replicas:
        tensor_parallel = small.engine.tensor_parallel
        counts = {size // tensor_parallel for size in sizes if size % tensor_parallel == 0} - {1}
        named = sizes.count(tensor_parallel) > 1
        rows += [_row(small, count, named, target_users, gpus_per_node) for count in sorted(counts)]
    return rows


def _row(
    replica: _Replica, count: int, named: bool, target_users: int, gpus_per_node: int
) -> PlanRow:
    """`count` replicas side by side, users spread evenly over them."""
    tensor_parallel = replica.engine.tensor_parallel
    layout = f"TP={tensor_parallel}" if count == 1 else f"{count} x TP={tensor_parallel}"
    users = None if replica.users is None else count * replica.users
    groups = None if users is None else math.ceil(target_users / users)
    gpus = None if groups is None else groups * count * tensor_parallel
    per_node = gpus_per_node // tensor_parallel
    nodes = nodes_n_plus_1 = None
    if groups is not None and per_node > 0:
        nodes = math.ceil(groups * count / per_node)
        nodes_n_plus_1 = math.ceil((groups * count + 1) / per_node)
    measured = None if replica.measured_users is None else count * replica.measured_users
    return PlanRow(
        layout=f"{layout} {replica.engine.name}" if named else layout,
        gpus_per_replica_group=count * tensor_parallel,
        users_per_group=users,
        measured_users=measured,
        limiting=replica.limiting if count == 1 else f"each replica: {replica.limiting}",
        tpot_s_p50=replica.tpot_s_p50,
        latency_s_p50=replica.latency_s_p50,
        groups=groups,
        gpus=gpus,
        nodes=nodes,
        gpus_n_plus_1=None if gpus is None else gpus + tensor_parallel,
        nodes_n_plus_1=nodes_n_plus_1,
        source=replica.source,
        rejected=replica.rejected,
    )


def _assumptions(
    demand: Demand | None, think_s: float, safety: float, tolerance: float
) -> dict[str, str]:
    said = {
        "method": (
            "closed queueing network of one replica, means; KV cache and max_num_seqs as hard "
            "bounds; blind to eviction and preemption"
        ),
        "quantiles": (
            "not predicted: the predicted mean times (quantile measured at the level with the most "
            "users / mean predicted there); an unmeasured engine borrows the largest such ratio"
        ),
        "safety": f"a prediction may use {safety:g} of each bound",
        "check": (
            f"a prediction more than {tolerance:.0%} off the measured mean latency of any level "
            "is rejected"
        ),
        "think_time": f"{think_s:g} s between the episodes of a user",
        "routing": "users stay with their replica, which keeps its share of prefix-cache hits",
        "several_replicas": "users spread evenly over replicas that do not disturb each other",
        "tools": "as fast as measured, however many replicas share them",
        "n_plus_1": "one replica more than needed; losing one leaves the target met",
        "nodes": "a replica does not span nodes",
    }
    if demand is not None:
        said["demand"] = (
            f"{demand.calls_per_episode:.2f} model calls per episode, each of "
            f"{demand.prompt_tokens:.0f} prompt tokens ({demand.cached_share:.0%} cached) and "
            f"{demand.output_tokens:.0f} output tokens, and {demand.tool_s:.2f} s of tools; means "
            f"over {demand.episodes} measured episodes, selection items included; "
            f"{demand.left_out} that were cut, broke off or lack a size are left out"
        )
    return said
