"""Create what the services of compose.yaml expect: the bucket, and the home of Dagster."""

import os

import fsspec

from videomme_pipeline.assets.instance import open_instance

if __name__ == "__main__":
    protocol, _, folder = os.environ["VIDEOMME_DATA"].partition("://")
    fsspec.filesystem(protocol).makedirs(folder.partition("/")[0], exist_ok=True)
    with open_instance():
        pass
