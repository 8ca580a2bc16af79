"""The number of the contract between plans and runtimes.

`mstarc_runtime.plan_api.PLAN_ABI` is the other side; a test holds them equal. It goes up whenever
generated code and a runtime of the older number would no longer understand each other.
"""

PLAN_ABI = 6
