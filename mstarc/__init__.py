"""The compiler of the `.mstar` language and its command line.

Turns a spec, and a deployment that says where it runs, into a plan: generated Python that the
runtime (`mstarc_runtime`) executes. It never imports torch and never runs a plan itself.
Start reading at `driver.py`, which calls the stages from top to bottom.
"""

__version__ = "0.1.0"
