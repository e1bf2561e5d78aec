"""From a request to a command or a question, without HTTP: rights, names, defaults."""
