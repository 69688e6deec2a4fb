"""What would vLLM do with this load? One scheduler, two clocks.

In go requests (prompt tokens, output tokens, block hashes) and an engine's coefficients; out come
tokens with their times. `steptime` is the law of one step, `memory` and `blocks` the KV cache,
`decoding` and `scheduler` continuous batching (pure: no clock, no I/O), `tokens` and `policy` what
the simulated model reads and says, `preset` stated times instead of the law, `hostile` streams
that test clients, `server` the OpenAI face of it all. Everything it emits is labelled simulated
(methods.md section 7; coefficients and their source are in conf/engine/).
"""
