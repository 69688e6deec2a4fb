"""Which test covers which row of the field's faults: the first two tables of field_bugs.md.

Each row is a fixture against the scripted byte-exact server (conftest.py) or the byte-level
readers. A row that is no client's is covered where its stage lives; two are not built yet.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIELD_BUGS = ROOT.parent / "shared" / "reference" / "field_bugs.md"
CHAT, HTTP, SSE = "client/test_chat.py", "client/test_client_http.py", "client/test_sse.py"
NOT_BUILT = "not built: "

STREAM = {
    "vllm#15106, #3759": f"{CHAT}::test_role_and_empty_content_are_no_token",
    "vllm#14795": f"{CHAT}::test_chunks_without_choices_come_first",
    "guidellm#737, inference-perf#559": (
        f"{CHAT}::test_reasoning_is_the_first_token_and_content_the_first_answer_token"
    ),
    "inference-perf#392": f"{CHAT}::test_comments_events_and_pings_have_no_stamp",
    "evalscope#1694, sglang PR#36047": f"{CHAT}::test_no_token_is_missing_not_zero_and_no_success",
    "LocalAI PR#10351, vllm#43267": f"{CHAT}::test_everything_at_once_is_a_collapsed_stream",
    "tokenomics PR#16": f"{HTTP}::test_each_segment_is_stamped_when_it_arrives",
    "guidellm#743, vllm#37937, #49216": (
        f"{CHAT}::test_an_error_event_fails_the_request_and_keeps_the_text"
    ),
    "inference-perf (StreamInterruptedError)": (
        f"{CHAT}::test_over_a_socket_a_reset_after_some_tokens_is_no_sample"
    ),
    "evalscope#413": f"{CHAT}::test_over_a_socket_the_stamp_is_the_arrival_and_not_the_end",
    "litellm#29602, sglang#2805, TensorRT-LLM PR#17427": (
        f"{CHAT}::test_every_attempt_leaves_a_record"
    ),
    "vllm#27485, #42661, probar#27": f"{CHAT}::test_several_tokens_in_a_chunk_count_by_usage",
    "inference-perf#564, endpoints#278": f"{CHAT}::test_no_usage_is_missing",
    "vllm#7242": f"{CHAT}::test_the_first_token_is_no_gap",
    "flexible-inference-bench PR#68": f"{CHAT}::test_role_and_empty_content_are_no_token",
    "sglang#10746": f"{CHAT}::test_an_answer_that_ended_early_has_its_actual_length",
    "genai-bench#100": f"{CHAT}::test_an_impossible_rate_is_kept_and_flagged",
    "UTF-8 character split over two TCP segments": (
        f"{CHAT}::test_any_split_gives_the_same_record_and_consistent_stamps"
    ),
}
CALLS = {
    "dynamo#6664, litellm#37792, dynamo#4723": f"{CHAT}::test_calls_in_fragments_by_index",
    "vllm#48294": f"{CHAT}::test_a_lost_call_is_a_failure_of_the_server_not_an_abstention",
    "vllm#48347, #55082": f"{CHAT}::test_a_name_without_arguments",
    "vllm#45167, #22975, #57490": f"{CHAT}::test_a_call_left_in_the_content_is_a_parse_failure",
    "vllm#47963, #53269, #9053": f"{CHAT}::test_a_cut_call_is_truncated",
    "vllm#39056": f"{CHAT}::test_required_but_an_empty_list_is_a_missed_call",
    "vllm#55497": "agent/test_transcript.py::test_bad_arguments_are_not_sent_again",
    "hass_local_openai_llm#92": f"{CHAT}::test_finish_reason_twice",
    "langchain-oracle#52": (
        f"{CHAT}::test_arguments_as_an_escaped_string_are_unescaped_once_and_said_so"
    ),
    "gorilla#1362": f"{CHAT}::test_an_unparseable_call_is_no_abstention",
    "vllm#11592, PR#49923, Llama 3.1 template": NOT_BUILT + "a probe before the run",
    "vllm#47069, #53257": NOT_BUILT + "the noise arm, unloaded against unloaded",
}


def rows(number: int) -> list[str]:
    """The first cells of a table of the reference."""
    tables = FIELD_BUGS.read_text(encoding="utf-8").split("\n## ")[1:]
    lines = [line for line in tables[number].splitlines() if line.startswith("| ")]
    return [line.split("|")[1].strip() for line in lines[1:]]


@pytest.mark.skipif(not FIELD_BUGS.exists(), reason="../shared/reference is not present")
@pytest.mark.parametrize(("number", "covered"), [(0, STREAM), (1, CALLS)])
def test_every_row_is_covered(number: int, covered: dict[str, str]) -> None:
    named = {row.partition(";")[0] for row in rows(number)}
    assert named == set(covered)


@pytest.mark.parametrize("where", sorted({*STREAM.values(), *CALLS.values()}))
def test_the_named_test_exists(where: str) -> None:
    if where.startswith(NOT_BUILT):
        return
    path, _, name = where.partition("::")
    text = (ROOT / "tests" / path).read_text(encoding="utf-8")
    assert re.search(rf"^def {name}\(", text, re.MULTILINE)
