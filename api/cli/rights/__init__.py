"""Commands about permissions and identity."""
