"""Print the tokens of pictures by the processors of transformers, as JSON by model type.

The argument is a JSON list of sizes (width, height). This script runs in another environment, which
has torch, torchvision and transformers. Families that its transformers does not contain are left
out. Tokens for the start and the end of a picture are not counted.
"""

import json
import sys
from collections.abc import Callable

import numpy as np
import transformers

Sizes = list[tuple[int, int]]


def patches(name: str, **settings: object) -> Callable[[int, int], int]:
    """The patches of a processor that merges squares of four, from a real picture."""
    processor = getattr(transformers, name)(**settings)

    def tokens(width: int, height: int) -> int:
        picture = np.zeros((height, width, 3), np.uint8)
        grid = processor(images=[picture], return_tensors="pt")["image_grid_thw"][0]
        return int(grid.prod()) // 4

    return tokens


def qwen(patch_size: int, least: int, most: int) -> Callable[[int, int], int]:
    size = {"shortest_edge": least, "longest_edge": most}
    return patches("Qwen2VLImageProcessor", patch_size=patch_size, size=size)


def internvl() -> Callable[[int, int], int]:
    processor = transformers.GotOcr2ImageProcessor(
        size={"height": 448, "width": 448}, crop_to_patches=True, max_patches=12
    )
    return lambda width, height: 256 * processor.get_number_of_image_patches(height, width, {})


def gemma4() -> Callable[[int, int], int]:
    processor = transformers.Gemma4ImageProcessor()

    def tokens(width: int, height: int) -> int:
        picture = np.zeros((height, width, 3), np.uint8)
        return int(processor(images=[picture])["num_soft_tokens_per_image"][0])

    return tokens


FAMILIES: dict[str, Callable[[], Callable[[int, int], int]]] = {
    "qwen3_vl": lambda: qwen(16, 65_536, 16_777_216),
    "qwen2_5_vl": lambda: qwen(14, 3_136, 12_845_056),
    "qwen3_omni_moe": lambda: qwen(16, 3_136, 12_845_056),
    "internvl": internvl,
    "gemma4": gemma4,
    "glm4v": lambda: patches("Glm4vImageProcessor"),
    "glm46v": lambda: patches("Glm46VImageProcessor"),
    "kimi_k25": lambda: patches(
        "Kimi_K25ImageProcessor", size={"max_height": 7_168, "max_width": 7_168}
    ),
}


def main(sizes: Sizes) -> None:
    counted = {}
    for family, build in FAMILIES.items():
        try:
            tokens = build()
        except AttributeError:
            continue
        counted[family] = [tokens(*size) for size in sizes]
    print(json.dumps(counted))  # noqa: T201


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
