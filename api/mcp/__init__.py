"""The node as a server of the Model Context Protocol, over its HTTP API."""
