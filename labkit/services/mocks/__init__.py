"""The mock dependencies themselves."""
