"""`python -m pastforward.papers.figures`."""

from pastforward.papers.figures.runner import main

if __name__ == "__main__":
    main()
