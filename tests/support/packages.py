"""Packages that are installed only during a test."""

from pathlib import Path


def write_package(site: Path, module: str, code: str, entry_points: str) -> str:
    """Write a package with one module to `site`, as `pip install --target` leaves it.

    Returns the name of the distribution. Tests add `site` to the path.
    """
    name = module.replace("_", "-")
    information = site / f"{module}-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(entry_points)
    (site / f"{module}.py").write_text(code)
    return name
