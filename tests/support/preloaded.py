"""Import what a run needs, for a process that forks runs."""

import importlib
import pkgutil

for package in ("videomme_pipeline", "assets"):
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if "torchcodec" not in module.name:
            importlib.import_module(module.name)
