"""Search: vectors and words of texts, and what is similar."""
