"""The demonstration and its page."""
