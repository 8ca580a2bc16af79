"""Runs the ops of a node on batches: builds their contexts, calls them, keeps their results.

Start with `context`: what an op is handed, and how an engine makes one.
"""
