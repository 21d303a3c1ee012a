"""Graph: what every part works with: clock, checks of arguments, look-ups, who reads what."""
