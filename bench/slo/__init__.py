"""Does a level meet its objectives, and may the numbers be believed?

In go levels (`fit.level`), their selection and answer rows (`quality`) and an `Slo`; out comes one
`LevelVerdict` per level, and an exit code. Equations (methods.md section 5), of one level:

* An objective is `passed` when its one-sided bound at `slo.confidence` lies on the right side of
  the SLO's bound, `failed` when the other one lies on the wrong side, else `undecided`. A level
  passes only if every objective does (an intersection-union test, so no correction is needed);
  which ones failed is corrected by Holm over the objectives of the level (`slo.verdict`).
* Quantiles: time blocks of whole episodes on the exceedance indicator (`stats.clusters`).
  Rates: Clopper-Pearson on the number of distinct items, because the same question asked twice at
  temperature 0 is one observation; the error rate on episodes (`slo.evidence`).
* Every attempt counts: a call or an episode that failed, was cut, or never gave an answer lies
  beyond every bound. A value that cannot be had from a good answer (a collapsed stream, TPOT of
  one token) is left out and counted.
* Gates say whether the numbers may be believed. One that trips makes the level not valid, and
  every objective undecided. One that cannot be checked says why, and does not. What should be
  known and is not (client CPU, lag) trips: gates fail closed (`slo.gates`).
"""

from bench.slo.evidence import NEVER, Values, count_errors, metric_values
from bench.slo.gates import NOT_CHECKED, OK, check_gates, server_gap, trips
from bench.slo.verdict import LevelVerdict, ObjectiveVerdict, check_exit_code, judge

__all__ = [
    "NEVER",
    "NOT_CHECKED",
    "OK",
    "LevelVerdict",
    "ObjectiveVerdict",
    "Values",
    "check_exit_code",
    "check_gates",
    "count_errors",
    "judge",
    "metric_values",
    "server_gap",
    "trips",
]
