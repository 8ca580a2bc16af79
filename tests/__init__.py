"""The tests. `docs/contributing.md` says which kind lives in which folder."""
