"""A server that is healthy in every small request and answers chats as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
    body = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return f"data: {json.dumps(body)}\n\n"


TEXT = chunk({"content": "Yes"}) + chunk({}, "stop") + "data: [DONE]\n\n"


class Gateway(ThreadingHTTPServer):
    """Answers each chat with `status` and `answer`, the first `good` of them with TEXT."""

    daemon_threads = True
    status = 200
    answer = TEXT
    good = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: Gateway

    def do_GET(self) -> None:
        self._send(200, json.dumps({"data": [{"id": "m"}], "version": "1"}))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append(json.loads(body))
        if len(self.server.asked) <= self.server.good:
            self._send(200, TEXT)
        else:
            self._send(self.server.status, self.server.answer)

    def _send(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:
        return


@contextmanager
def serving() -> Iterator[Gateway]:
    """A gateway in a thread, for as long as the block lasts."""
    server = Gateway()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
