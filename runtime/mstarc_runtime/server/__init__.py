"""Serves a plan over HTTP: requests of clients → requests of the conductor, and their answers back.

One server has one plan. The ranks are turned in a thread of their own (`ranks_thread`), HTTP by
asyncio in the main one; an answer goes from there to here through a `Live`, which holds what its
client has not taken yet. `app` has the routes and what stands around them: `turns` knows whose a
request is (`keys`) and how it waits. `service` lets requests in (`admission`, `limits`) and counts
them, one file a route says what its JSON means for the plan: `chat`, `speech`, `transcriptions`,
`images`, `generate`, `facts` (what there is and how it does), and `realtime` for live speech. Media
are read by processes of the `media_pool`.

What a model takes and makes is read from its plan (`abilities`). No path of a request reaches a
file, and nothing is unpickled. Start with `app`.
"""
