"""Who asks when, and what happens then?

In go a `Load` (users, think time, durations) and the tasks of a scenario; out come episodes,
written as records, and one `PointRecord` per load level.

Two processes per load worker. Locust (`users`) decides who runs when and writes what it asked
for; the episode host (`host`: asyncio on uvloop) runs agent, client and tools and writes what
happened. A user sends one JSON line (`line`) over a Unix socket and waits for the one-line
result. `drive` starts and stops both and is all that `measure` needs; `deal` and `arrivals` are
pure functions of the seed (methods.md section 2), `grid` is the idle grid of section 4.

Members of a point are the episodes scheduled in [started, issued_until); the load is held until
the last member has ended, the rest is cut (methods.md section 5).
"""
