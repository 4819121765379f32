"""Models: whatever answers a question about a video, behind one protocol."""
