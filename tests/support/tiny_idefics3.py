"""Write a tiny, random Idefics3 to a folder, for `transformers serve`. Argument: FOLDER.

This script runs in another environment, which has torch and transformers. The answers of the model
are meaningless. Tests check that pictures are passed to a real processor and model.
"""

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    Idefics3ImageProcessor,
    Idefics3Processor,
    PreTrainedTokenizerFast,
)

PICTURE_PIXELS, PATCH_PIXELS, SCALE = 64, 16, 2
TOKENS_PER_PICTURE = (PICTURE_PIXELS // PATCH_PIXELS // SCALE) ** 2
SPECIAL = ("<pad>", "<s>", "<end_of_utterance>", "<image>", "<fake_token_around_image>")
GRID = ("<global-img>", *(f"<row_{r}_col_{c}>" for r in range(1, 7) for c in range(1, 7)))
CHAT = (
    "{% for m in messages %}{{ m['role'] }}:{% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{% for p in m['content'] %}{% if p['type'] == 'text' %}{{ p['text'] }}"
    "{% else %}<image>{% endif %}{% endfor %}{% endif %}<end_of_utterance>\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def main(folder: Path) -> None:
    torch.manual_seed(1)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate((*SPECIAL, *GRID, *alphabet))}
    bytes_only = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    bytes_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_only.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bytes_only,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="<end_of_utterance>",
        additional_special_tokens=["<image>", "<fake_token_around_image>", *GRID],
    )
    edge = {"longest_edge": PICTURE_PIXELS}
    processor = Idefics3Processor(
        image_processor=Idefics3ImageProcessor(
            do_image_splitting=False, size=edge, max_image_size=edge
        ),
        tokenizer=tokenizer,
        image_seq_len=TOKENS_PER_PICTURE,
        chat_template=CHAT,
    )
    config = Idefics3Config(
        image_token_id=vocabulary["<image>"],
        pad_token_id=vocabulary["<pad>"],
        scale_factor=SCALE,
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "image_size": PICTURE_PIXELS,
            "patch_size": PATCH_PIXELS,
        },
        text_config={
            "model_type": "llama",
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "vocab_size": len(vocabulary),
            "max_position_embeddings": 4096,
            "bos_token_id": vocabulary["<s>"],
            "eos_token_id": vocabulary["<end_of_utterance>"],
            "pad_token_id": vocabulary["<pad>"],
        },
    )
    Idefics3ForConditionalGeneration(config).eval().save_pretrained(folder)
    processor.save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
