"""Plain Locust against a running episode host: `REACT_BENCH_LOAD=SPEC.json locust -f FILE`.

The spec is a `bench.load.spec.LoadSpec` as JSON; `python -m bench.load.host` serves its socket.
`bench run` does not need this file: it starts `bench.load.users` itself.
"""

import os
from pathlib import Path

from locust import events

from bench.errors import LoadError
from bench.load.issuer import Issuer
from bench.load.spec import LoadSpec, read_spec
from bench.load.users import user_class

if "REACT_BENCH_LOAD" not in os.environ:
    raise LoadError(
        "REACT_BENCH_LOAD", "names no load specification", "set it to the path of a LoadSpec"
    )
issuer = Issuer(read_spec(Path(os.environ["REACT_BENCH_LOAD"]), LoadSpec))
events.test_start.add_listener(issuer.begin)  # type: ignore[no-untyped-call] # Locust's hook
ContractsUser = user_class(issuer)
