"""An engine's /metrics, read into EngineSample. An absent counter is None, never 0."""

from __future__ import annotations

import time

import httpx
from prometheus_client.parser import text_string_to_metric_families

from bench.record import EngineSample

# EngineSample field -> sample names, the current one first (vLLM renamed some).
NAMES: dict[str, tuple[str, ...]] = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "kv_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "prefix_queries": ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
    "prefix_hits": ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
    "preemptions": ("vllm:num_preemptions_total",),
    "prompt_tokens": ("vllm:prompt_tokens_total",),
    "generation_tokens": ("vllm:generation_tokens_total",),
    "requests": ("vllm:request_success_total",),
    "e2e_sum_s": ("vllm:e2e_request_latency_seconds_sum",),
    "e2e_count": ("vllm:e2e_request_latency_seconds_count",),
    "ttft_sum_s": ("vllm:time_to_first_token_seconds_sum",),
    "ttft_count": ("vllm:time_to_first_token_seconds_count",),
}


def parse_metrics(text: str) -> dict[str, float]:
    """EngineSample's fields that the exposition text holds.

    Counters and gauges are summed over their labels (data-parallel engines, finish reasons);
    kv_usage is the highest of the engines. Raises ValueError when the text is no exposition text.
    """
    wanted = {name: field for field, names in NAMES.items() for name in names}
    found: dict[str, list[float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            field = wanted.get(sample.name)
            if field is not None:
                found.setdefault(field, []).append(float(sample.value))
    return {
        field: max(values) if field == "kv_usage" else sum(values)
        for field, values in found.items()
    }


async def sample(client: httpx.AsyncClient, metrics_url: str, point: str) -> EngineSample:
    """Scrape once. Raises httpx.HTTPError when no good answer comes, ValueError when it is not one.

    An answer without a single counter of NAMES is none: it is some other server's page.
    """
    response = await client.get(metrics_url)
    response.raise_for_status()
    values = parse_metrics(response.text)
    if not values:
        raise ValueError(f"{metrics_url} shows none of vLLM's counters")
    return EngineSample(point=point, ns=time.monotonic_ns(), **values)
