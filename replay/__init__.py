"""Moving through the log: verification, moments, rebuilds."""
