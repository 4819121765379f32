"""The smoke benchmarks: 24 small videos drawn on this machine or taken from open packages."""
