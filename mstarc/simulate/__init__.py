"""What a plan does under load, without running it: discrete events over its steps.

A `PlacedPlan` (steps, routes, rings, groups, copies), seconds of calls from `analysis.op_costs`,
and requests drawn from a mix → `Simulated`: throughput, latencies, how busy each rank is, whether
it keeps up. Which step runs next, how many rows it takes and who is let in is decided by
`mstarc_schedule`, as in the runtime. No value is computed: how long a loop goes on, how many rows a
prompt has and when requests come is drawn, from a seed.

- `sample`   kinds of requests → requests with sizes, options and passes
- `parts`    what stands where: channels, stations, processes
- `times`    seconds of a step for the rows that run together
- `worker`   what a process does in a turn: the runtime's scheduler and stepper, without values
- `run`      the events: requests, and where rows go
- `result`   the answer, and its text and JSON

Start with `run`. Not here: how requests are read (deployment.mix), the command (cli.simulate).
"""
