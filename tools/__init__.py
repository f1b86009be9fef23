"""What builds the environment, runs the checks and makes the notebooks; not part of the package."""
