"""The mock service behind real HTTP, on this machine only."""
