"""The state stepper."""
