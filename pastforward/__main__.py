from pastforward.cli import main

main()
