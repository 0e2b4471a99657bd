"""The pages: sign-in, todo list, chat and the desk. HTML that works without scripts, plus small modules."""
