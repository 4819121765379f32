"""Let this process read Dagster's migration scripts once, not once per storage that it opens."""

from alembic.config import Config
from alembic.script import ScriptDirectory

_read = ScriptDirectory.from_config
_known: dict[str | None, ScriptDirectory] = {}


def _read_once(config: Config) -> ScriptDirectory:
    folder = config.get_main_option("script_location")
    if folder not in _known:
        _known[folder] = _read(config)
    return _known[folder]


ScriptDirectory.from_config = _read_once  # type: ignore[method-assign]
