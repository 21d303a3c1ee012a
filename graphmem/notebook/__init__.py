"""How answers look in notebooks: as HTML."""
