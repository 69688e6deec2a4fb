"""An engine's /metrics: vLLM's names, old and new; what is absent is None."""

import asyncio

import httpx
import pytest

from bench.engine.counters import parse_metrics, sample

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 2.0
vllm:num_requests_running{engine="1",model_name="m"} 3.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.5
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 1000.0
# TYPE vllm:prefix_cache_queries_created gauge
vllm:prefix_cache_queries_created{engine="0",model_name="m"} 1.7e9
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 7.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 2.0
# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{engine="0",le="+Inf",model_name="m"} 9.0
vllm:e2e_request_latency_seconds_count{engine="0",model_name="m"} 9.0
vllm:e2e_request_latency_seconds_sum{engine="0",model_name="m"} 12.5
"""


def test_sums_over_labels_and_takes_the_fullest_cache() -> None:
    assert parse_metrics(VLLM) == {
        "running": 5.0,
        "kv_usage": 0.5,
        "prefix_queries": 1000.0,
        "requests": 9.0,
        "e2e_sum_s": 12.5,
        "e2e_count": 9.0,
    }


def test_the_older_names_are_known() -> None:
    text = '# TYPE vllm:gpu_cache_usage_perc gauge\nvllm:gpu_cache_usage_perc{a="b"} 0.4\n'
    assert parse_metrics(text) == {"kv_usage": 0.4}


@pytest.mark.parametrize(
    ("status", "text"), [(500, VLLM), (200, "<html>no metrics</html>"), (200, "a 1\n"), (0, "")]
)
def test_a_failed_scrape_is_no_sample(status: int, text: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if status == 0:
            raise httpx.ConnectError("refused")
        return httpx.Response(status, text=text)

    async def scrape() -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
            with pytest.raises((httpx.HTTPError, ValueError)):
                await sample(client, "http://engine/metrics", "u4")

    asyncio.run(scrape())


def test_a_scrape_fills_the_sample() -> None:
    async def scrape() -> None:
        transport = httpx.MockTransport(lambda request: httpx.Response(200, text=VLLM))
        async with httpx.AsyncClient(transport=transport) as client:
            got = await sample(client, "http://engine/metrics", "u4")
        assert (got.running, got.requests, got.waiting) == (5.0, 9.0, None)

    asyncio.run(scrape())
