"""Print the tokens of pictures by the processors of transformers, as JSON by model type.

The argument is a JSON list of sizes (width, height). `llava_onevision` has the tokens of a video
with eight frames of a size. This script runs in another environment, which
has torch, torchvision and transformers. Families that its transformers does not contain are left
out. Tokens for the start and the end of a picture are not counted, except those of SmolVLM.
"""

import json
import re
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


def minicpmv() -> Callable[[int, int], int]:
    processor = object.__new__(transformers.MiniCPMV4_6Processor)
    processor.slice_mode, processor.image_token = True, "i"
    processor.image_start_token = processor.slice_start_token = "("
    processor.image_end_token = processor.slice_end_token = ")"
    pictures = transformers.MiniCPMV4_6ImageProcessor()

    def tokens(width: int, height: int) -> int:
        inputs = pictures(images=[np.zeros((height, width, 3), np.uint8)])
        shown = processor.replace_image_token(inputs, 0, image_token_divisor=16)
        return len(shown) - len("()")

    return tokens


def smolvlm(tile: int, tokens_per_tile: int) -> Callable[[int, int], int]:
    processor = transformers.SmolVLMImageProcessor(
        size={"longest_edge": 4 * tile}, max_image_size={"longest_edge": tile}
    )
    from transformers.models.smolvlm import processing_smolvlm  # noqa: PLC0415

    def tokens(width: int, height: int) -> int:
        picture = np.zeros((height, width, 3), np.uint8)
        shape = processor(images=[picture], return_row_col_info=True)
        shown = processing_smolvlm.get_image_prompt_string(
            shape["rows"][0][0], shape["cols"][0][0], tokens_per_tile, "f", "i", "g"
        )
        # The tokenizer of SmolLM2 has one token for a position, and one for two line breaks.
        return len(re.sub(r"<row_\d_col_\d>|\n\n", "p", shown))

    return tokens


def llava_onevision() -> Callable[[int, int], int]:
    processor = object.__new__(transformers.LlavaOnevisionProcessor)
    processor.num_image_tokens = 729

    def tokens(width: int, height: int) -> int:
        counted = processor._get_num_multimodal_tokens(video_sizes=[(8, height, width)])
        return int(counted["num_video_tokens"][0])

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
    "minicpmv4_6": minicpmv,
    "smolvlm2-500m": lambda: smolvlm(512, 64),
    "smolvlm2-2.2b": lambda: smolvlm(384, 81),
    "llava_onevision": llava_onevision,
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
