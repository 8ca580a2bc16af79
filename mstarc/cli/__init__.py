"""The `mstarc` command: one file a subcommand, each a call of one function of `mstarc.driver`.

Here are the options' texts, the files that are read and the exit codes: 0 nothing to report,
1 findings, 2 the job could not be done. Diagnostics go to stdout, progress goes to stderr.
Start reading at `main.py`.
"""
