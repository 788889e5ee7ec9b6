"""Pages that need nothing else: one HTML text with its style and pictures inside, no script, no network, and equal bytes for equal data."""
