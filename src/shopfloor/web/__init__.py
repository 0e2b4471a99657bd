"""The pages: sign-in, the own list, the chat. Plain HTML that works without scripts, and small modules beside it."""
