"""Pages that open anywhere: one look for all of them, nothing loaded from elsewhere, light and dark, on a phone and on a desk."""
