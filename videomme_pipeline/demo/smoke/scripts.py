"""The scripts of the smoke videos: the content of every scene, generated from a seed.

`drawing` draws pictures and subtitles from a script, and `questions` generates questions about it.
The names and values of fields are part of the fingerprint of a drawn video, so they keep their
British spelling (`colour`).
"""

import random
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from videomme_pipeline.benchmarks.question import Duration

SEED = 20261

DRAWING_VERSION = 1
"""Increase it when the same script results in other pictures."""


class Shape(StrEnum):
    CIRCLE = "circles"
    SQUARE = "squares"
    TRIANGLE = "triangles"
    STAR = "stars"
    DIAMOND = "diamonds"
    HEXAGON = "hexagons"
    CROSS = "crosses"
    RING = "rings"


class Color(StrEnum):
    RED = "red"
    ORANGE = "orange"
    YELLOW = "yellow"
    GREEN = "green"
    BLUE = "blue"
    PURPLE = "purple"
    WHITE = "white"
    BLACK = "black"


class Motion(StrEnum):
    """The common motion of the shapes of a scene."""

    TO_THE_RIGHT = "They drift to the right"
    TO_THE_LEFT = "They drift to the left"
    UPWARDS = "They climb upwards"
    DOWNWARDS = "They sink downwards"
    UP_AND_DOWN = "They bob up and down"
    SIDE_TO_SIDE = "They sway side to side"
    IN_A_CIRCLE = "They move in a circle"
    STILL = "They do not move at all"


class Corner(StrEnum):
    TOP_LEFT = "The top left"
    TOP_RIGHT = "The top right"
    BOTTOM_LEFT = "The bottom left"
    BOTTOM_RIGHT = "The bottom right"


MIN_COUNT, MAX_COUNT = 2, 9

SIGNS = (
    "AMBER", "BIRCH", "COBALT", "DRAGON", "EAGLE", "FALCON", "GINGER", "HAZEL", "INDIGO", "JASPER",
    "KODIAK", "LOTUS", "MAPLE", "NECTAR", "OSPREY", "PEPPER", "QUARTZ", "RAVEN", "SIERRA", "TOPAZ",
)  # fmt: skip
PEOPLE = (
    "Anna", "Bruno", "Clara", "David", "Elena", "Felix", "Grace", "Henry", "Irene", "Jonas",
    "Karin", "Lucas", "Maria", "Nadia", "Oscar", "Paula",
)  # fmt: skip
ITEMS = (
    "ladder", "lantern", "compass", "blanket", "hammer", "camera", "bucket", "whistle", "mirror",
    "notebook", "helmet", "basket", "scissors", "umbrella", "magnet", "thermos",
)  # fmt: skip
REASONS = (
    "the floor is wet", "the gate is locked", "the lamp is broken", "the guide is late",
    "the wind is strong", "the map is missing", "the battery is empty", "the road is closed",
    "the crowd is large", "the phone is ringing", "the paint is fresh", "the music is loud",
    "the water is cold", "the ticket is lost", "the bell is silent", "the wheel is loose",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One scene: what it shows and what the narrator says. Its end is exclusive.

    `code` is a label in `corner`; `left_sign` and `right_sign` are at the picture's edges. The
    narrator says that `person` asks for `item`, and stops because of `reason`.
    """

    start_seconds: int
    end_seconds: int
    heading: str
    shape: Shape
    colour: Color
    count: int
    motion: Motion
    code: str
    corner: Corner
    left_sign: str
    right_sign: str
    person: str
    item: str
    reason: str

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences that the narrator repeats during the scene."""
        return (
            f"At the {self.heading.lower()}, {self.person} asks for the {self.item}.",
            f"{self.person} stops at the {self.heading.lower()} because {self.reason}.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One drawn video. `narrated` is true if it has subtitles.

    `headings` are all candidates for its scenes. Unused ones serve as wrong answers.
    """

    video_id: str
    title: str
    topic: str
    domain: str
    sub_category: str
    duration: Duration
    width: int
    height: int
    frames_per_second: int
    narrated: bool
    headings: tuple[str, ...]
    scenes: tuple[Scene, ...]

    @property
    def length_seconds(self) -> int:
        return self.scenes[-1].end_seconds


@dataclass(frozen=True, slots=True)
class _Theme:
    domain: str
    sub_category: str
    title: str
    topic: str
    headings: str
    """Words, at least as many as a script has scenes."""
    duration: Duration = Duration.SHORT
    narrated: bool = True


_THEMES = (
    _Theme("Knowledge", "Astronomy", "Night Sky", "finding planets in the night sky",
           "OBSERVATORY DOME TELESCOPE CRATER COMET ORBIT SUNRISE ECLIPSE", Duration.MEDIUM),
    _Theme("Knowledge", "Geography", "River Atlas", "following a river to the sea",
           "SPRING GORGE WATERFALL CANYON VALLEY MEADOW ESTUARY COAST"),
    _Theme("Knowledge", "Humanity & History", "Old Town", "the history of an old town",
           "CASTLE TOWER CHAPEL ARCHIVE TAVERN GARRISON HARBOUR MINT", Duration.LONG),
    _Theme("Knowledge", "Technology", "Robot Lab", "building a robot in a laboratory",
           "WORKBENCH SENSOR MOTOR BATTERY ARENA CIRCUIT DISPLAY CHARGER"),
    _Theme("Film & Television", "Animation", "Paper Fox", "a paper fox that looks for its home",
           "FOREST CAVE LAKE ISLAND VILLAGE ORCHARD MILL DESERT"),
    _Theme("Film & Television", "News Report", "City News", "the evening news of a small city",
           "STUDIO COUNCIL HOSPITAL AIRPORT STATION WEATHER STADIUM SCHOOL", Duration.MEDIUM),
    _Theme("Film & Television", "Documentary", "Deep Water", "divers who explore a sunken ship",
           "PIER ANCHOR REEF WRECK CABIN TUNNEL LAGOON BEACH"),
    _Theme("Sports Competition", "Athletics", "Track Day", "a day at an athletics meeting",
           "SPRINT HURDLES JAVELIN DISCUS RELAY MARATHON PODIUM WARMUP"),
    _Theme("Sports Competition", "Basketball", "Hoop Finals", "the finals of a basketball cup",
           "TIPOFF DEFENCE TIMEOUT REBOUND FREETHROW BUZZER LOCKER BENCH", narrated=False),
    _Theme("Sports Competition", "Other Sports", "Sail Cup", "a regatta around three islands",
           "MARINA STARTLINE BUOY HEADLAND LIGHTHOUSE STRAIT FINISH CLUBHOUSE", Duration.MEDIUM),
    _Theme("Sports Competition", "Football", "Cup Match", "a football match in the rain",
           "KICKOFF MIDFIELD THROWIN PENALTY HALFTIME GOALPOST TRIBUNE WHISTLE"),
    _Theme("Artistic Performance", "Magic Show", "Grand Illusion", "a magician and his tricks",
           "CURTAIN CABINET CARDS DOVES MIRROR CHAINS VANISH APPLAUSE"),
    _Theme("Artistic Performance", "Stage Play", "Winter Play", "a stage play about a winter inn",
           "OVERTURE KITCHEN STAIRWAY CELLAR BALCONY FIREPLACE FINALE LOBBY", Duration.MEDIUM),
    _Theme("Artistic Performance", "Acrobatics", "Sky Circus", "acrobats under a circus roof",
           "TRAPEZE TIGHTROPE JUGGLER UNICYCLE CANNON PYRAMID HOOPS PARADE"),
    _Theme("Life Record", "Food", "Bread Diary", "baking bread from grain to loaf",
           "FLOUR YEAST DOUGH OVEN CRUST TOASTER PANTRY TABLE"),
    _Theme("Life Record", "Travel", "Island Tour", "a bicycle tour across an island",
           "FERRY MARKET BRIDGE VINEYARD TEMPLE CAMPSITE SUMMIT GARDEN", Duration.LONG),
    _Theme("Life Record", "Pet & Animal", "Farm Friends", "the animals of a small farm",
           "STABLE POND KENNEL PADDOCK BARN HENHOUSE PASTURE SHED", narrated=False),
    _Theme("Life Record", "Handicraft", "Wood Shop", "making a chair out of oak",
           "SAWMILL BLUEPRINT LATHE SANDING VARNISH CLAMPS DRILL SHOWROOM"),
    _Theme("Multilingual", "Multilingual", "Bonjour Paris", "learning French on a walk in Paris",
           "MARCHE JARDIN GARE EGLISE PONT MUSEE LIBRAIRIE BOULANGERIE"),
    _Theme("Multilingual", "Multilingual", "Hola Sevilla", "learning Spanish at a fair in Seville",
           "PLAZA MERCADO PUENTE ESTACION IGLESIA PLAYA COCINA TEATRO", Duration.MEDIUM),
    _Theme("Multilingual", "Multilingual", "Guten Tag", "learning German in an alpine village",
           "BAHNHOF KIRCHE RATHAUS BRUNNEN SCHLOSS BERGHAUS GARTEN SEEUFER"),
)  # fmt: skip

_SCENES = {Duration.SHORT: 5, Duration.MEDIUM: 6, Duration.LONG: 8}
_SCENE_SECONDS = {Duration.SHORT: (4, 10), Duration.MEDIUM: (40, 50), Duration.LONG: (225, 225)}
_SIZE = {Duration.SHORT: (640, 360), Duration.MEDIUM: (480, 270), Duration.LONG: (320, 180)}


@cache
def scripts(seed: int = SEED) -> tuple[Script, ...]:
    """The scripts of the drawn videos, from id "001". The seed changes scenes, not themes."""
    return tuple(
        _script(theme, f"{number:03d}", random.Random(f"{seed}/{number}"))
        for number, theme in enumerate(_THEMES, start=1)
    )


def clock_text(second: int) -> str:
    """Text of the clock: "01:05" at 65 seconds."""
    return f"{second // 60:02d}:{second % 60:02d}"


def _script(theme: _Theme, video_id: str, draw: random.Random) -> Script:
    width, height = _SIZE[theme.duration]
    return Script(
        video_id=video_id,
        title=theme.title,
        topic=theme.topic,
        domain=theme.domain,
        sub_category=theme.sub_category,
        duration=theme.duration,
        width=width,
        height=height,
        frames_per_second=draw.choice((24, 25, 30)) if theme.duration is Duration.SHORT else 24,
        narrated=theme.narrated,
        headings=tuple(theme.headings.split()),
        scenes=_scenes(theme, draw),
    )


def _scenes(theme: _Theme, draw: random.Random) -> tuple[Scene, ...]:
    """Scenes that differ from each other in everything that questions ask about."""
    count = _SCENES[theme.duration]
    headings = draw.sample(theme.headings.split(), count)
    shapes, colors = draw.sample(list(Shape), count), draw.sample(list(Color), count)
    counts = draw.sample(range(MIN_COUNT, MAX_COUNT + 1), count)
    motions = draw.sample(list(Motion), count)
    signs = draw.sample(SIGNS, 2 * count)
    people, items = draw.sample(PEOPLE, count), draw.sample(ITEMS, count)
    reasons = draw.sample(REASONS, count)
    scenes: list[Scene] = []
    for number in range(count):
        start = scenes[-1].end_seconds if scenes else 0
        scenes.append(
            Scene(
                start_seconds=start,
                end_seconds=start + draw.randint(*_SCENE_SECONDS[theme.duration]),
                heading=headings[number],
                shape=shapes[number],
                colour=colors[number],
                count=counts[number],
                motion=motions[number],
                code=f"{draw.choice('HKMTWX')}{draw.randint(1000, 9999)}",
                corner=draw.choice(list(Corner)),
                left_sign=signs[2 * number],
                right_sign=signs[2 * number + 1],
                person=people[number],
                item=items[number],
                reason=reasons[number],
            )
        )
    return tuple(scenes)
