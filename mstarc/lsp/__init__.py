"""The language server: what an editor asks about a spec, answered from the compiler's own stages.

`documents` keeps an open text and its `driver.Inspection`, read again after every change; only the
declaration that changed is parsed (`pieces`). Each feature is one file with a pure function from
an inspection and a place to the answer, in code points and without the protocol. `server` is the
glue: it turns positions of the protocol (UTF-16) into offsets, calls a feature, and turns the
answer into the protocol's types; only it and `wire` know pygls. Start reading at `server.py`.
"""
