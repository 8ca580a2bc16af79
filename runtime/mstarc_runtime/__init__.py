"""Runs plans: loads one, starts its ranks, and takes requests through them.

`python -m mstarc_runtime PLAN …` is what `mstarc run` becomes. In the order in which a request
meets them: `request` reads it, `conductor` admits it, `worker` takes its rows from step to step
(`scheduler`, `routing`, `stepping`, `host_stepping`, `landing`, `courier`), `engine` runs the
steps' bodies on `kvcache`, `attention`, `layers` and `models`, `streaming` carries items between
machines, `answer` writes what comes out. `launch` starts processes, `transport` connects them,
`weights` fills models.

Generated code imports `plan_api` and nothing else. Nothing here knows a model's structure except
`models`, and nothing knows a spec. Start with docs/runtime.md.
"""
