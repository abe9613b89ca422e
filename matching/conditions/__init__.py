"""The language of conditions: text, normal form, and what it means (`oracle`)."""
