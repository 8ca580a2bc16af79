"""Generated Python: a `Plan` becomes the files of a plan folder.

`views` computes all that a file says, `templates` lay it out, `emit` renders the files and their
digests, `write` puts them on the disk, all or none. What a step does was decided in `plan`.
Start at `emit.py`.
"""
