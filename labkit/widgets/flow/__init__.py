"""A run played back."""
