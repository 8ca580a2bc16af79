"""Where the pieces of a model run best: an exact search over numbers.

A `Problem` has only numbers: pieces (a node, or the part of a node that some walks or contexts use)
with seconds and bytes by kind of device and tensor parallel size, edges between them, and devices.
`search` gives the best `Layout` by an objective, and the next best ones. No program, no file and no
device is known here: `problem` says what the numbers mean, `score` what a layout is worth, `copies`
how further devices are used, `search` how the best is found.

Start with `problem`. Who makes a problem of a program: `analysis.placement.model`. Who puts the
answer into a program: the pass `place`.
"""
