"""What the model is told. The first line is a salt, so that no prompt cache outlives a point."""

from __future__ import annotations

AGENT_RULES = """\
You answer questions about the company's contracts, providers and payments, and about public facts.
Work in turns. In each turn think briefly about which evidence is still missing, then call the
tool whose description fits it. Call several tools in one turn when they do not depend on each
other. A tool returns an observation; use it, and do not ask for the same thing twice.
When the evidence is enough, or no tool is needed, answer in plain sentences and call no tool.
Write parameterised SQL: placeholders $1, $2 in the query, the values in params.
Take numbers and names from the observations as they stand; never invent them.
If a tool returns an error or is unavailable, acknowledge the limitation in your answer.
Do not retry more than once. If web_search is unavailable, state that real-time data is not
accessible at this moment and answer with the available internal sources only.
If you reach no conclusion, say that the evidence is not enough."""

RAG_RULES = """\
You answer questions from the retrieved context of the user's message, and from nothing else.
Take numbers and names as they stand there; never invent them. If the context does not hold the
answer, or retrieval failed, say so."""


def agent_system(salt: str) -> str:
    """The system message of the ReAct agent."""
    return f"[salt {salt}]\n{AGENT_RULES}"


def rag_system(salt: str) -> str:
    """The system message of naive RAG."""
    return f"[salt {salt}]\n{RAG_RULES}"


def rag_question(context: str, question: str) -> str:
    """The user message of naive RAG: what was retrieved, then the question in its own last line."""
    return f"Context:\n{context}\n\nQuestion: {question}"
