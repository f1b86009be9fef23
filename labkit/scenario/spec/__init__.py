"""What a run is made of, and how it is read from a file."""
