"""Attention over a paged cache: append new rows, attend old and new ones.

One interface (`backend`), two implementations: `torch_reference` runs anywhere and is what the
other is compared with; `flashinfer` runs on NVIDIA GPUs. `mask` says what a row sees; `cross`
attends what a request wrote once.
"""
