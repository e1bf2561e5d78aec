"""The protocol's own federation (wire 3.1 to 3.5), for nodes without our event log."""
