"""The node as a server of the Model Context Protocol: a face over its HTTP API."""
