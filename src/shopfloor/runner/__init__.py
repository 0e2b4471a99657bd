"""The runner: drives an agent over ACP from iteration to iteration until the work is verified done."""
