"""Videos: where each file is, what it is (hash, streams, packets). No pictures are decoded here."""
