"""A party's own table: its columns, from and to files, scaled and encoded, and who holds which columns."""
