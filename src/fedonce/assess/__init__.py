"""What a message gives away, what a party is worth, how good a model is, whether privacy holds."""
