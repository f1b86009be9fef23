"""The explorers, a module each."""
