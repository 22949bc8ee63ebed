"""`python -m benchmarks`."""

if __name__ == "__main__":
    # The log reader's process imports this module anew: what only the benchmark needs would be part of its start.
    from benchmarks.command import main

    main()
