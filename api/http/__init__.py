"""The steps between a request and its handler: identity, permission, body, errors, quotas."""
