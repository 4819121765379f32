"""Answer readers: which letter a response gives, by which rule and from which characters."""
