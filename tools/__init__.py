"""What builds the environment and runs the checks; only the standard library, and nothing of labkit."""
