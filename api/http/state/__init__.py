"""The state that the application keeps between requests."""
