"""The embedded model: a weak but real reference that needs no key, no GPU and no service."""
