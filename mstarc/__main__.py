"""`python -m mstarc` is the `mstarc` command."""

from mstarc.cli.main import main

if __name__ == "__main__":
    main()
