"""Who asks when, and what happens then?

In go a `Load` (users or arrivals, think time, durations) and the tasks of a scenario; out come
episodes, written as records, and one `PointRecord` per load level.

Two processes per load worker. Locust (`users`) decides who runs when and writes what it asked
for; the episode host (`host`: asyncio on uvloop) runs agent, client and tools and writes what
happened. A user sends one JSON line (`line`) over a Unix socket and waits for the one-line
result; an arrival of an open load is sent when it is due, whatever is in flight, and gets a
connection of its own. `drive` starts and stops both and is all that `measure` needs, beside `plan`
(the points). `deal` and `arrivals` are pure functions of the seed (methods.md section 2), `trace`
reads arrivals from a file, `grid` is the idle grid of section 4.

With `load.workers=N` there are N such pairs, led by a Locust `master`. Worker w has the users and
arrivals whose number is w modulo N, whatever the master deals out (`issuer`), and its own files
`*-<w>.jsonl`, which are one run when read. The death of any process ends the run as incomplete.

Members of a point are the episodes scheduled in [started, issued_until); the load is held until
the last member has ended, the rest is cut (methods.md section 5).
"""
