"""From a request to a command or a query, without HTTP: rights, names, defaults."""
