"""The rules of the seed are in the prompt, and the salt is in front of it."""

from __future__ import annotations

from bench.agent.prompts import agent_system, rag_question, rag_system


def test_the_salt_is_the_first_line() -> None:
    for prompt in (agent_system("run/u4"), rag_system("run/u4")):
        assert prompt.splitlines()[0] == "[salt run/u4]"
    assert agent_system("a").splitlines()[1:] == agent_system("b").splitlines()[1:]


def test_the_agents_rules() -> None:
    prompt = agent_system("s")
    assert "Do not retry more than once" in prompt
    assert "acknowledge the limitation" in prompt
    assert "web_search is unavailable" in prompt


def test_the_question_of_naive_rag_stands_in_its_own_last_line() -> None:
    message = rag_question('{"documents": []}', "How many?")
    assert message.splitlines()[-1] == "Question: How many?"
    assert '{"documents": []}' in message
