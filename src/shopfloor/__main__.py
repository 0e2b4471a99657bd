"""python -m shopfloor"""

from shopfloor.cli import main

main()
