"""Which number, how sure? Quantiles with intervals, rates with intervals, steady state.

In go plain arrays of seconds or counts; out come `Interval`s. Equations: methods.md sections 1
and 5 (order statistics, Wilson, Clopper-Pearson, MSER-5, time blocks of the exceedance indicator).
"""
