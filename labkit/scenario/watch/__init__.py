"""Looks on at a run, for what a trace does not hold: layers, streams, answers, a breaker's counts."""
