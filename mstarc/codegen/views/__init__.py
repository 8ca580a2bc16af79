"""Views: all that a template prints, computed. One module a generated file.

A view is a frozen dataclass of texts and lines; its function takes the plan. Templates hold layout
only. Start at `rank.py`.
"""
