"""How a mock dependency fails, how long it takes, and how much it can do at once."""
