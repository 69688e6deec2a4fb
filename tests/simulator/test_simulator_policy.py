"""What the simulated model says, turn by turn."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.episode import PlannedCall, PlannedTurn, Task, Workload
from bench.errors import ScenarioError
from bench.simulator.choice import load_embedding
from bench.simulator.policy import Material, Policy, filler, is_final, read_material, turn_of
from bench.simulator.tokens import pieces

SQL = {"query": "SELECT COUNT(*) FROM contracts WHERE year = $1", "params": [2025]}
TEXT = {"query": "special conditions recurring clauses"}
QUESTION = "How many contracts did we sign in 2025, and which special conditions recur?"
TASK = Task(
    id="t1",
    workload=Workload.react_2,
    question=QUESTION,
    turns=[
        PlannedTurn([PlannedCall("sql_query", SQL)], "First the exact count is needed."),
        PlannedTurn([PlannedCall("vector_search", TEXT)], "Now the wording of clauses is needed."),
    ],
    facts=["47"],
)
PARALLEL = msgspec.structs.replace(
    TASK,
    id="t2",
    workload=Workload.parallel,
    question="How many orders did we count in March, and what does the returns policy say?",
    turns=[
        PlannedTurn([PlannedCall("vector_search", TEXT), PlannedCall("sql_query", SQL)], "Both.")
    ],
)
NO_TOOL = Task(id="t3", workload=Workload.selection, question="How many orders in total?")


def face(name: str, description: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {}, "required": ["query"]}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = [
    face(
        "find_text", "Search internal documents about policies, contracts, clauses. NOT for sums."
    ),
    face("run_sql", "Query the SQL database for counts, sums, exact numbers. NOT for documents."),
    face("ask_web", "Search the public web for recent news and current prices."),
]


@pytest.fixture(scope="module")
def policy() -> Policy:
    tasks = {task.question: task for task in (TASK, PARALLEL, NO_TOOL)}
    canonical = {"find_text": "vector_search", "run_sql": "sql_query", "ask_web": "web_search"}
    return Policy(Material(tasks, canonical), 1, load_embedding())


def start(question: str) -> list[dict[str, Any]]:
    return [
        {"role": "system", "content": "[salt a]\nRules."},
        {"role": "user", "content": question},
    ]


def after(messages: list[dict[str, Any]], name: str, observation: str) -> list[dict[str, Any]]:
    function = {"name": name, "arguments": "{}"}
    turn = turn_of(messages)
    call = {"id": f"c{turn}", "type": "function", "function": function}
    return [
        *messages,
        {"role": "assistant", "content": "Thought.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{turn}", "content": observation},
    ]


def test_a_known_task_goes_through_its_plan_and_answers_from_what_it_saw(policy: Policy) -> None:
    messages = start(QUESTION)
    first = policy.reply(messages, TOOLS)
    assert [call.name for call in first.calls] == ["run_sql"]
    assert json.loads(first.calls[0].arguments) == SQL
    assert first.content == "First the exact count is needed."
    assert not first.final
    messages = after(messages, "run_sql", '{"columns": ["count"], "rows": [[47]]}')
    second = policy.reply(messages, TOOLS)
    assert [call.name for call in second.calls] == ["find_text"]
    assert json.loads(second.calls[0].arguments) == TEXT
    text = '[{"text": "Clause 8.3 sets a penalty of 2% per month."}]'
    answer = policy.reply(after(messages, "find_text", text), TOOLS)
    assert answer.calls == []
    assert answer.final
    assert "47" in answer.content
    assert "2% per month" in answer.content


def test_a_wrong_observation_gives_a_wrong_answer(policy: Policy) -> None:
    messages = after(start(QUESTION), "run_sql", '{"columns": ["count"], "rows": [[46]]}')
    answer = policy.reply(after(messages, "find_text", "[]"), TOOLS)
    assert "47" not in answer.content


def test_a_failed_tool_does_not_stop_the_plan(policy: Policy) -> None:
    messages = after(
        start(QUESTION), "run_sql", '{"error": "timeout after 5s", "tool": "sql_query"}'
    )
    assert [call.name for call in policy.reply(messages, TOOLS).calls] == ["find_text"]
    answer = policy.reply(after(messages, "find_text", "[]"), TOOLS)
    assert "timeout after 5s" in answer.content


def test_another_tool_than_planned_gets_the_question_as_its_query(policy: Policy) -> None:
    misleading = face("ask_web", "Query exact numbers, counts and sums of structured records.")
    reply = policy.reply(start(QUESTION), [TOOLS[0], misleading])
    assert [call.name for call in reply.calls] == ["ask_web"]
    assert json.loads(reply.calls[0].arguments) == {"query": QUESTION}


def test_parallel_calls_come_in_one_turn_each_with_its_arguments(policy: Policy) -> None:
    reply = policy.reply(start(PARALLEL.question), TOOLS)
    got = {call.name: json.loads(call.arguments) for call in reply.calls}
    assert got == {"run_sql": SQL, "find_text": TEXT}


def test_an_empty_plan_is_not_looked_at(policy: Policy) -> None:
    reply = policy.reply(start(NO_TOOL.question), TOOLS)
    assert [call.name for call in reply.calls] == ["run_sql"]


def test_unknown_questions_get_one_call_then_an_answer(policy: Policy) -> None:
    messages = start("What is the total amount of all invoices in 2024?")
    reply = policy.reply(messages, TOOLS)
    assert [call.name for call in reply.calls] == ["run_sql"]
    answer = policy.reply(after(messages, "run_sql", '{"total": 5}'), TOOLS)
    assert answer.calls == []
    assert "total = 5" in answer.content


def test_greetings_need_no_tool_unless_one_is_required(policy: Policy) -> None:
    assert policy.reply(start("Hello, how are you?"), TOOLS).calls == []
    assert len(policy.reply(start("Hello, how are you?"), TOOLS, required=True).calls) == 1


def test_naive_rag_finds_its_task_inside_the_message(policy: Policy) -> None:
    context = '[{"text": "47 contracts were signed in 2025. Offices are closed on Sunday."}]'
    reply = policy.reply(start(f"Context:\n{context}\n\nQuestion: {QUESTION}"), [])
    assert reply.task == TASK
    assert "47 contracts were signed" in reply.content


def test_turns_are_counted_since_the_last_question() -> None:
    messages = after(start(QUESTION), "run_sql", "{}")
    assert turn_of(messages) == 1
    assert turn_of([*messages, {"role": "user", "content": "Next."}]) == 0


def test_finality_of_scripted_turns() -> None:
    assert [is_final(TASK, turn) for turn in range(3)] == [False, False, True]
    assert is_final(msgspec.structs.replace(TASK, workload=Workload.naive_rag), 0)
    assert not is_final(None, 3)


@pytest.mark.parametrize("tokens", [1, 7, 30, 500])
def test_filler_has_exactly_the_tokens_asked_for(tokens: int) -> None:
    assert len(pieces(filler(tokens))) == tokens


def test_material_may_be_absent_but_not_damaged(tmp_path: Path) -> None:
    assert read_material(None).tasks == {}
    assert read_material(tmp_path).tasks == {}
    (tmp_path / "tasks.jsonl").write_bytes(msgspec.json.encode(TASK) + b"\n")
    assert read_material(tmp_path).tasks == {QUESTION: TASK}
    (tmp_path / "tasks.jsonl").write_text("{")
    with pytest.raises(ScenarioError):
        read_material(tmp_path)


def test_a_slip_takes_another_tool_and_comes_at_the_rate_asked_for(policy: Policy) -> None:
    right = policy.reply([{"role": "user", "content": QUESTION}], TOOLS)
    wrong = policy.reply([{"role": "user", "content": QUESTION}], TOOLS, slip=True)
    assert right.calls[0].name == "run_sql"
    assert wrong.calls[0].name != "run_sql"
    asked = [f"question {number}" for number in range(2000)]
    slips = {rate: {q for q in asked if policy.slips(q, 0, rate)} for rate in (0.0, 0.1, 0.3, 1.0)}
    assert slips[0.0] == set()
    assert len(slips[0.1]) == pytest.approx(200, abs=60)
    assert slips[0.1] < slips[0.3] < slips[1.0] == set(asked)
