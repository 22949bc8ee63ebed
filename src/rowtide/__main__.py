"""`python -m rowtide`."""

from rowtide.cli.main import main

if __name__ == "__main__":
    main()
