"""What pytest needs to collect documents as tests, and to compare goldens.

`markdown.py` cuts a page into cases, `language.py` runs them through the driver, `mirtest.py` does
the same for passes, and `golden.py` compares texts. No test lives here, and no expectation.
"""
