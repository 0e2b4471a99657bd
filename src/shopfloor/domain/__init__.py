"""What the floor is about: words and rules, without any input or output."""
