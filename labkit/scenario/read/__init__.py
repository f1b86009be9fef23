"""What a trace says: numbers, a story, workers, recovery, scopes, journeys. From the trace alone."""
