"""What the machine offers: files written whole or not at all, packages that one feature needs, texts that people write."""
