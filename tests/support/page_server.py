"""The server of the results page, in a thread of this process."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from videomme_pipeline.reports.page import served_page
from videomme_pipeline.reports.server import PageServer
from videomme_pipeline.storage.layout import Store


@contextmanager
def running_page(store: Store) -> Iterator[PageServer]:
    """Serve the page of the evaluations in `store` within the block."""
    server = PageServer(store, port=0)
    server.show(served_page(store))
    loop = asyncio.new_event_loop()
    task = loop.create_task(server.serve())
    thread = threading.Thread(target=loop.run_until_complete, args=(asyncio.wait([task]),))
    thread.start()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()
