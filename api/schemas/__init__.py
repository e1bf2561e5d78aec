"""Models of requests and answers, by subject."""
