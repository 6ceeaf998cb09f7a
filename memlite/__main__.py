"""`python -m memlite` is the command line."""

from memlite.entry import main

if __name__ == "__main__":
    main()
