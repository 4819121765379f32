"""The web server of the Dagster UI, which first prepares the instance and ends dead runs.

    python -m videomme_pipeline.assets.ui FILE SOCKET … OPTION …

It creates FILE once the instance is prepared. The options are those of Dagster's web server. It
starts once the code servers listen at the sockets, or it would show an error until they do.
"""

import sys
import time
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path

from videomme_pipeline.assets.instance import open_instance
from videomme_pipeline.assets.processes import end_dead_runs
from videomme_pipeline.errors import VideoMMEError

if __name__ == "__main__":
    try:
        with open_instance() as instance:
            end_dead_runs(instance, datetime.now(UTC))
    except VideoMMEError as error:
        sys.exit(f"Error: {error}")
    Path(sys.argv.pop(1)).touch()
    from dagster_webserver.cli import cli  # slow, while the code servers start

    sockets = list(takewhile(lambda word: not word.startswith("-"), sys.argv[1:]))
    while not all(Path(socket).exists() for socket in sockets):
        time.sleep(0.1)
    del sys.argv[1 : len(sockets) + 1]
    cli()
