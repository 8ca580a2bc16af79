"""The columns of a batch's flags whose meaning is fixed; masks of a body have those between."""

COLUMNS = 16
MORE = 0
"""The row's loop runs once more."""
RAN = COLUMNS - 1
"""The row took part in the pass, where passes are logged."""
