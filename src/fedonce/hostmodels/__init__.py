"""What the host learns: a network on its own columns and the guests' representations."""
