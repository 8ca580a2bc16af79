"""Facts about programs: what runs after what, how often, what it costs, what can be captured.

Functions take a `Program` and give tables about it; none rewrites one (`passes` does) and none
reports to a user. Start at `control.py`, the order in which a machine does things.
"""
