"""What lies between every request and its handler: identity, permission, bodies, errors, quotas."""
