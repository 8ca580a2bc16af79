"""Weights by name: found, fetched, checked, converted, loaded.

A name in a spec → a folder of safetensors in the cache → parameters of a module. `sources` is the
table of names, `fetch` makes a folder ready, `load` fills a module from it, `random` fills one
without any file. Nothing here knows a model's structure except the converters in `convert/`, and
nothing unpickles.

Start with `sources`, then `fetch`.
"""
