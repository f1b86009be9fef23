"""Runs a scenario in virtual time, into a trace."""
