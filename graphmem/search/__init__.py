"""Search: vectors and words of texts, and edges between similar nodes."""
