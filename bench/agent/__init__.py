"""What does an agent do with a question? The ReAct loop, naive RAG, one-turn selection.

In go an `Order` (who, when), a `Task` and the user's `Connection`; out come records through the
`Sink`: an LLMRecord per model call, a ToolRecord per attempt of a tool call, one EpisodeRecord
last. Definitions of turn, episode and stamps: methods.md sections 1 and 2.
"""

from bench.agent.order import Order, Sink
from bench.agent.react import Agent

__all__ = ["Agent", "Order", "Sink"]
