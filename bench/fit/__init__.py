"""What are the laws behind the records? TTFT, TPOT, each tool, the episode.

In go the members of a level (`fit.level`) and the idle grid; out come `Law`s with intervals and
the range they were fitted on (methods.md sections 3 and 4).
"""
