"""Pictures of a sweep's results."""
