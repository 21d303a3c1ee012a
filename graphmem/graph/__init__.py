"""Common ground of all parts: the bound graph, checks of arguments, look-ups, access."""
