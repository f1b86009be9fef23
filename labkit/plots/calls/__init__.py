"""Pictures of a handful of calls."""
