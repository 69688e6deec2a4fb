"""How many GPUs? Closed-form bounds, a queueing network, a replay on a virtual clock.

In go an engine's coefficients (measured or shipped), a workload mix and objectives; out comes a
plan whose every figure says measured, interpolated, extrapolated, predicted or simulated
(methods.md section 8).
"""
