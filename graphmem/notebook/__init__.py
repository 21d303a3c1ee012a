"""How answers look in notebooks: as HTML, and as frames of pandas."""
