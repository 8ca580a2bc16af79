"""The key-value cache of one node: pages, page tables and contexts.

Slots and rows in, flat numpy arrays out: which page every new row goes to, which pages a request
attends, at which position. All of it is host work, vectorised over a batch of slots; the tensors
are touched only to copy a page that two contexts share.

- `layout`   sizes of a node's cache
- `pages`    which pages are free, and who shares the others
- `tables`   which pages a context holds, in which order, and how many rows are in them
- `cache`    the tensors beside the tables: `KVCache`, what an engine makes one of for each node
- `aside`    contexts whose pages are in host memory
- `prefixes` pages of prompts that other requests may use
- `levels`   which of a step's rows several requests hold in the same pages
- `step`     arrays for calls of one row a request, kept up to date from step to step
- `packed`   arrays for one call of many rows a request
- `cross`    cross-attention contexts: written once a request, then only read

Not here: attention itself (`attention`), when a request gets a slot (`scheduler`).
"""
