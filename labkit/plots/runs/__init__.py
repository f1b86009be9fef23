"""Pictures of whole runs, read off a trace."""
