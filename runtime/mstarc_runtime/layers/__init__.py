"""Building blocks of models: compute only, the same code on a CPU and a GPU.

`linear`, `norm`, `rope`, `mlp`, `embedding` and `sampler`. No block knows of pages, slots or
requests; what a block computes for a row depends on that row alone (for `linear` on a CPU at a
fixed number of rows, see there).
"""
