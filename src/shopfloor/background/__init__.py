"""What runs without being called."""
