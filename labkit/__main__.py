"""`python -m labkit` is the command `labkit`; so launchers that take a module can start it."""

from labkit.cli import main

if __name__ == "__main__":
    main()
