"""The steps of a guest and of a host, from tables in files to a message, a model or predictions."""
