"""`python -m workflow_rl`: the command `workflow-rl`, in a checkout as well as installed."""

from workflow_rl.commands.main import main

if __name__ == "__main__":
    main()
