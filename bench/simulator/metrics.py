"""/metrics under vLLM's names, so that one scraper serves both engines.

Names as in vLLM's V1 engine (`vllm:num_requests_running`, `vllm:prefix_cache_queries`, ...);
counters get their `_total` from the client library, as theirs do.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

LABELS = ("model_name", "engine")
TTFT_BUCKETS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40,
    80, 160, 640, 2560,
)  # fmt: skip
LATENCY_BUCKETS = (
    0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
)  # fmt: skip


class Metrics:
    """The counters of one simulated engine, in a registry of their own."""

    def __init__(self, model: str) -> None:
        self._registry = CollectorRegistry()
        self._model = model
        self._running = self._gauge("num_requests_running", "Requests in the batch")
        self._waiting = self._gauge("num_requests_waiting", "Requests waiting for admission")
        self._usage = self._gauge("kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1")
        self._queries = self._counter("prefix_cache_queries", "Prompt tokens looked up")
        self._hits = self._counter("prefix_cache_hits", "Prompt tokens found in the cache")
        self._preemptions = self._counter("num_preemptions", "Preemptions")
        self._prompt = self._counter("prompt_tokens", "Prompt tokens of admitted requests")
        self._generated = self._counter("generation_tokens", "Tokens generated")
        self._ttft = self._histogram("time_to_first_token_seconds", "TTFT", TTFT_BUCKETS)
        self._e2e = self._histogram("e2e_request_latency_seconds", "Latency", LATENCY_BUCKETS)
        self._queue = self._histogram("request_queue_time_seconds", "Queue", LATENCY_BUCKETS)
        self._prefill = self._histogram("request_prefill_time_seconds", "Prefill", LATENCY_BUCKETS)
        self._decode = self._histogram("request_decode_time_seconds", "Decode", LATENCY_BUCKETS)
        self._success = Counter(
            "vllm:request_success",
            "Requests that ended",
            (*LABELS, "finished_reason"),
            registry=self._registry,
        )
        self._seen_queries = self._seen_hits = self._seen_preemptions = 0

    def _gauge(self, name: str, text: str) -> Gauge:
        gauge = Gauge(f"vllm:{name}", text, LABELS, registry=self._registry)
        return gauge.labels(self._model, "0")

    def _counter(self, name: str, text: str) -> Counter:
        counter = Counter(f"vllm:{name}", text, LABELS, registry=self._registry)
        return counter.labels(self._model, "0")

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        histogram = Histogram(
            f"vllm:{name}", text, LABELS, registry=self._registry, buckets=buckets
        )
        return histogram.labels(self._model, "0")

    def first_token(self, prompt_tokens: int, ttft_s: float, queue_s: float) -> None:
        """A request got its first token; seconds since its arrival."""
        self._prompt.inc(prompt_tokens)
        self._ttft.observe(ttft_s)
        self._queue.observe(queue_s)
        self._prefill.observe(max(0.0, ttft_s - queue_s))

    def generated(self, tokens: int) -> None:
        """Tokens were generated."""
        self._generated.inc(tokens)

    def finished(self, e2e_s: float, decode_s: float, reason: str) -> None:
        """A request ended (stop, length or abort); seconds since its arrival, of its decoding."""
        self._success.labels(self._model, "0", reason).inc()
        if reason != "abort":
            self._e2e.observe(e2e_s)
            self._decode.observe(decode_s)

    def text(
        self,
        running: int,
        waiting: int,
        kv_usage: float,
        prefix_queries: int,
        prefix_hits: int,
        preemptions: int,
    ) -> bytes:
        """The exposition text; the scheduler's own counts are taken as they are now."""
        self._running.set(running)
        self._waiting.set(waiting)
        self._usage.set(kv_usage)
        self._queries.inc(prefix_queries - self._seen_queries)
        self._hits.inc(prefix_hits - self._seen_hits)
        self._preemptions.inc(preemptions - self._seen_preemptions)
        self._seen_queries, self._seen_hits = prefix_queries, prefix_hits
        self._seen_preemptions = preemptions
        return generate_latest(self._registry)
