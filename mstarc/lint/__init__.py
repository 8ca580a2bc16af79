"""Opinions about specs and deployments that are right: what is never used, late, large or odd.

`lint_spec` runs the rules over a checked spec and gives diagnostics (MS1xxx); errors come from the
stages before. A rule is one file in `rules/` and one line in `registry.RULES`; `select` says which
of them run and which count as errors; `suppressions` reads `# mstarc: allow[…]` comments; `fixes`
applies what tools may change.

Nothing here is needed to compile. Start reading at `base.py`, then any rule.
"""
