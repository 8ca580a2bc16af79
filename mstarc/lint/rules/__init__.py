"""One rule a file; `mstarc.lint.registry` lists them. A file has the name of its code."""
