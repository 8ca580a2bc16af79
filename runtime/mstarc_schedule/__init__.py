"""When work runs: admission and batching as pure functions over counts.

Numbers in, decisions out: which step of a rank runs next, how many rows it takes, which bucket it
is padded to, whether a request is admitted. No tensors, no clocks, no queues; standard library
only, so that the runtime's scheduler and a simulator share every decision.

Start with `batching`.
"""
