"""Streams between machines: what a chunk is, and the buffers that hold the items.

Items in the order sent → chunks by the stream's policy, each a function of the item sequence alone.

- `chunks`  where the next chunk begins and ends: pure, one cursor a request
- `counts`  how many items each request has sent, without touching every request each step
- `ring`    the buffer on the rank that reads, on its device
- `outbox`  the way to a ring of another rank, with credits for back-pressure

Start with `chunks`. Not here: how messages travel (transport), who waits for whom (scheduler).
"""
