"""When did each byte of a streamed answer arrive, and what did it say?

In goes a request body and one kept-alive `Connection`; out comes an `LLMRecord` whose stamps are
arrivals of bytes: `http` keeps (ns, offset) per segment, `sse` turns them into events after the
stream ended, `chat` derives stamps, text, calls and usage (methods.md section 1). Nothing is
parsed while a stream runs, so the client does not delay what it measures.
"""

from bench.client.chat import complete, cut_record, read_record
from bench.client.http import Connection, RawStream
from bench.client.loop_lag import LoopLag
from bench.client.turns import Turns

__all__ = [
    "Connection",
    "LoopLag",
    "RawStream",
    "Turns",
    "complete",
    "cut_record",
    "read_record",
]
