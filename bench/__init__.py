"""ReAct Bench: does this agent, on this engine, meet its SLO, at how many users, on how many GPUs?

In go a scenario (`conf/`, `scenarios/`); out comes a run of raw records and, from it, a report.
`bench.measure` (Scenario -> sealed Run) and `bench.analyse` (Run -> report) tell the whole story.
"""
