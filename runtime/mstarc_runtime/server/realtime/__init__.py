"""`/v1/realtime`: events of a client over a WebSocket → requests of the plan, and events back.

The events have the shapes of OpenAI's clients. A session holds settings, a buffer of sound that is
spoken into, and a conversation of items; an answer to it is one request of the plan like any other,
which a client, or its speech, may interrupt. Mistakes are events; the connection goes on.

Start with `connection`. `settings` reads what a session may choose, `conversation` has the items,
`hearing` the buffer and where speech begins and ends in it, `answer` one answer on its way.
"""
