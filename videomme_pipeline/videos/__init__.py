"""Videos: facts, packets and integrity of each file. No pictures are extracted here."""
