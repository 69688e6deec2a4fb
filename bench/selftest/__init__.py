"""How much does the client add to what it measures, and up to which load?

In goes nothing but this machine; out comes a `SelfTest`: at rising numbers of streams the TTFT
and token times that the client saw, less those that a null server with an exact schedule wrote
down on the same clock. Added TTFT = (first_delta - sent) - (first write - arrival of the request).
`compare` puts the same server before other load generators (`make benchmarks`).
"""

from bench.selftest.cache import cached, copy_into, store
from bench.selftest.ladder import climb

__all__ = ["cached", "climb", "copy_into", "store"]
