"""What all tests share."""

from hypothesis import settings

# A deadline per example fails on a busy machine and says nothing about behaviour.
settings.register_profile("videomme", deadline=None)
settings.load_profile("videomme")
