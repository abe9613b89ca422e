"""`python -m benchmarks.papers`."""

from benchmarks.papers.runner import main

if __name__ == "__main__":
    main()
