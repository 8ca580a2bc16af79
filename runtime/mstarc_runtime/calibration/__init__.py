"""Measures a plan's ops and the machine: what `mstarc bench` starts as a process of its own.

A job on stdin (JSON, made by the compiler: nodes, their ops with the shapes of what they take) →
a result on stdout (JSON: seconds of each op at each batch, bytes of weights, facts of the
machine). Nothing of a request's control flow runs: each op is called alone, with made-up values.
`weigh` builds modules without memory; `ops` calls them; `facts` measures the machine.
"""
