"""What travels between parties: the wrapping of every file, the one message, keys, signatures and seals."""
