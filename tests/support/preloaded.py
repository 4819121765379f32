"""Import what a run needs, for a process that forks runs."""

import importlib
import pkgutil

import videomme_pipeline

for module in pkgutil.walk_packages(videomme_pipeline.__path__, "videomme_pipeline."):
    importlib.import_module(module.name)
