"""What turns a lowered program into one that says where and how everything runs.

Each pass is one file with one function of its name: a frozen program in, a frozen program out,
user mistakes into the context's sink. The verifier runs between every two. No pass knows syntax or
writes Python (`plan`, `codegen`). Start at `pipeline.py`.
"""

from mstarc.passes.context import PassContext, PassEntry
from mstarc.passes.pipeline import PIPELINE, pass_names, run_pass, run_pipeline

__all__ = ["PIPELINE", "PassContext", "PassEntry", "pass_names", "run_pass", "run_pipeline"]
