"""Write a tiny, random Qwen model with vision to a folder, for vLLM. Arguments: FAMILY FOLDER.

FAMILY is `qwen2_5_vl`, `qwen3_vl` or `qwen2_5_omni`, which also hears. This
script runs in another environment, which has torch, torchvision and transformers. The answers of
the model are meaningless. Its chat template and its processors of pictures, videos and sound are
those of the family, so that a server takes real frames and counts real tokens. Each byte of a text
is one token, except that " seconds" is one, as in the times of frames.
"""

import sys
from pathlib import Path

import torch
from tokenizers import pre_tokenizers
from transformers import (
    PreTrainedModel,
    ProcessorMixin,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2_5OmniConfig,
    Qwen2_5OmniProcessor,
    Qwen2_5OmniThinkerConfig,
    Qwen2_5OmniThinkerForConditionalGeneration,
    Qwen2Tokenizer,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
    WhisperFeatureExtractor,
)

WIDTH, HEADS, CONTEXT = 128, 2, 32_768
START, END, PAD = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
PICTURE, VIDEO = "<|image_pad|>", "<|video_pad|>"
OMNI = {
    "image_token": "<|IMAGE|>",
    "video_token": "<|VIDEO|>",
    "audio_token": "<|AUDIO|>",
    "vision_bos_token": "<|vision_bos|>",
    "vision_eos_token": "<|vision_eos|>",
    "audio_bos_token": "<|audio_bos|>",
    "audio_eos_token": "<|audio_eos|>",
}
"""Tokens of Qwen2.5-Omni by their names in its processor."""
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
SPECIAL = [PAD, START, END, VISION_START, VISION_END, PICTURE, VIDEO, *OMNI.values()]
WORDS = [*("seconds"[:length] for length in range(2, 8)), "Ġseconds"]
MERGES = [*zip(["s", *WORDS], "econds", strict=False), ("Ġ", "seconds")]
TOKENS = {token: number for number, token in enumerate([*BYTES, *SPECIAL, *WORDS])}
SEEN = {
    "image_token_id": TOKENS[PICTURE],
    "video_token_id": TOKENS[VIDEO],
    "vision_start_token_id": TOKENS[VISION_START],
    "vision_end_token_id": TOKENS[VISION_END],
}
LANGUAGE = {
    "vocab_size": len(TOKENS),
    "hidden_size": WIDTH,
    "intermediate_size": 2 * WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": TOKENS[PAD],
    "eos_token_id": TOKENS[END],
    "pad_token_id": TOKENS[PAD],
}
POSITIONS = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [8, 12, 12]}
VISION = {
    "depth": 2,
    "hidden_size": WIDTH // 2,
    "intermediate_size": WIDTH,
    "num_heads": HEADS,
    "out_hidden_size": WIDTH,
}
TEMPLATE = """\
{%- macro marked(pad) %}{{ '<|vision_start|>' + pad + '<|vision_end|>' }}{% endmacro -%}
{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\n' }}
{%- if message.content is string -%}{{ message.content }}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type in ['image', 'image_url'] -%}{{ marked('<|image_pad|>') }}
{%- elif part.type in ['video', 'video_url'] -%}{{ marked('<|video_pad|>') }}
{%- elif part.text is defined -%}{{ part.text }}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{{ '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}
"""
OMNI_TEMPLATE = (
    TEMPLATE.replace(VISION_START, OMNI["vision_bos_token"])
    .replace(VISION_END, OMNI["vision_eos_token"])
    .replace(PICTURE, OMNI["image_token"])
    .replace(VIDEO, OMNI["video_token"])
    .replace(
        "{%- elif part.text",
        "{%- elif part.type in ['audio', 'input_audio'] -%}"
        "{{ '<|audio_bos|><|AUDIO|><|audio_eos|>' }}\n{%- elif part.text",
    )
)


def tokenizer(**named: str) -> Qwen2Tokenizer:
    return Qwen2Tokenizer(
        **named,
        vocab=TOKENS,
        merges=MERGES,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=SPECIAL,
        model_max_length=CONTEXT,
    )


def qwen2_5_vl() -> tuple[PreTrainedModel, ProcessorMixin]:
    config = Qwen2_5_VLConfig(
        text_config=LANGUAGE | {"rope_parameters": POSITIONS},
        vision_config=VISION | {"fullatt_block_indexes": [1]},
        **SEEN,
    )
    pictures = {"patch_size": 14, "size": {"shortest_edge": 3_136, "longest_edge": 12_845_056}}
    processor = Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(**pictures),
        video_processor=Qwen2VLVideoProcessor(**pictures),
        tokenizer=tokenizer(),
        chat_template=TEMPLATE,
    )
    return Qwen2_5_VLForConditionalGeneration(config), processor


def qwen3_vl() -> tuple[PreTrainedModel, ProcessorMixin]:
    config = Qwen3VLConfig(
        text_config=LANGUAGE
        | {"head_dim": WIDTH // HEADS, "rope_parameters": POSITIONS | {"mrope_interleaved": True}},
        vision_config=VISION | {"deepstack_visual_indexes": [0], "num_position_embeddings": 256},
        **SEEN,
    )
    processor = Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(
            patch_size=16, size={"shortest_edge": 65_536, "longest_edge": 16_777_216}
        ),
        video_processor=Qwen3VLVideoProcessor(
            patch_size=16, size={"shortest_edge": 4_096, "longest_edge": 25_165_824}
        ),
        tokenizer=tokenizer(),
        chat_template=TEMPLATE,
    )
    return Qwen3VLForConditionalGeneration(config), processor


def qwen2_5_omni() -> tuple[PreTrainedModel, ProcessorMixin]:
    thinker = Qwen2_5OmniThinkerConfig(
        text_config=LANGUAGE | {"rope_parameters": POSITIONS},
        vision_config=VISION | {"fullatt_block_indexes": [1]},
        audio_config={
            "d_model": WIDTH // 2,
            "encoder_layers": 2,
            "encoder_attention_heads": HEADS,
            "encoder_ffn_dim": WIDTH,
            "output_dim": WIDTH,
        },
        image_token_index=TOKENS[OMNI["image_token"]],
        video_token_index=TOKENS[OMNI["video_token"]],
        audio_token_index=TOKENS[OMNI["audio_token"]],
        audio_start_token_id=TOKENS[OMNI["audio_bos_token"]],
        audio_end_token_id=TOKENS[OMNI["audio_eos_token"]],
        vision_start_token_id=TOKENS[OMNI["vision_bos_token"]],
        vision_end_token_id=TOKENS[OMNI["vision_eos_token"]],
    )
    pictures = {"patch_size": 14, "size": {"shortest_edge": 3_136, "longest_edge": 12_845_056}}
    processor = Qwen2_5OmniProcessor(
        image_processor=Qwen2VLImageProcessor(**pictures),
        video_processor=Qwen2VLVideoProcessor(**pictures),
        feature_extractor=WhisperFeatureExtractor(feature_size=128, chunk_length=300),
        tokenizer=tokenizer(**OMNI),
        chat_template=OMNI_TEMPLATE,
    )
    return Qwen2_5OmniThinkerForConditionalGeneration(thinker), processor


def main(family: str, folder: Path) -> None:
    torch.manual_seed(1)
    makers = {"qwen2_5_vl": qwen2_5_vl, "qwen3_vl": qwen3_vl, "qwen2_5_omni": qwen2_5_omni}
    model, processor = makers[family]()
    model.generation_config.update(
        do_sample=True,
        repetition_penalty=1.05,
        top_k=20,
        eos_token_id=TOKENS[END],
        pad_token_id=TOKENS[PAD],
    )
    model.to(torch.bfloat16)
    weights = model.state_dict()
    if isinstance(model, Qwen2_5OmniThinkerForConditionalGeneration):
        weights = {f"thinker.{name}": values for name, values in weights.items()}
    model.save_pretrained(folder, state_dict=weights)
    processor.save_pretrained(folder)
    if isinstance(model, Qwen2_5OmniThinkerForConditionalGeneration):
        # The published model can also speak, and this is its part that thinks.
        config = Qwen2_5OmniConfig(thinker_config=model.config, enable_audio_output=False)
        config.architectures = ["Qwen2_5OmniModel"]
        config.save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
