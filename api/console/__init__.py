"""The command line's groups, one file a group; ``api.cli`` puts them together."""
