"""Train a tiny Idefics3 with PyTorch to answer B, and write checkpoints. Argument: FOLDER.

This script runs in another environment, which has torch and transformers. It continues from the
last complete checkpoint in the folder. The checkpoint of the step `WORSE` gets other weights than
the model that is trained: those that answer C.
"""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import Idefics3ForConditionalGeneration, Idefics3Processor

STEPS, EVERY, WORSE = 400, 100, 300
END = "<end_of_utterance>"
PROMPT = (
    "user:Video frames are shown above.\n\nQuestion: What is in clip {clip}, part {part}?\n\n"
    "Options:\nA. Red\nB. Blue\nC. Green\n\nAnswer with the letter of the correct option."
    f"{END}\nassistant:"
)


def train(model: Any, optimizer: Any, processor: Any, letter: str, step: int) -> None:
    """One step of gradient descent, with examples that depend only on the number of the step."""
    chosen = random.Random(step)
    prompts = [
        PROMPT.format(clip=chosen.randrange(100), part=chosen.randrange(10)) for _ in range(8)
    ]
    tokenizer = processor.tokenizer
    texts = tokenizer([f"{prompt}{letter}{END}" for prompt in prompts], padding=True)
    tokens = torch.tensor(texts["input_ids"])
    lengths = torch.tensor(texts["attention_mask"]).sum(1)
    labels = torch.full_like(tokens, -100)
    for row, length in enumerate(lengths):
        labels[row, length - 2 : length] = tokens[row, length - 2 : length]
    mask = torch.tensor(texts["attention_mask"])
    optimizer.zero_grad()
    loss = model(input_ids=tokens, attention_mask=mask, labels=labels).loss
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, float(loss), flush=True)  # noqa: T201


def save(model: Any, optimizer: Any, processor: Any, folder: Path, step: int) -> None:
    """Write a checkpoint in the order of the Trainer of transformers."""
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    torch.save(optimizer.state_dict(), folder / "optimizer.pt")
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": step}))


def main(folder: Path) -> None:
    torch.manual_seed(1)
    start = folder / "untrained"
    if not (start / "processor_config.json").exists():
        maker = Path(__file__).with_name("tiny_idefics3.py")
        subprocess.run([sys.executable, str(maker), str(start)], check=True)
    complete = sorted(int(p.parent.name.split("-")[1]) for p in folder.glob("*/trainer_state.json"))
    usable = [step for step in complete if step != WORSE]
    source = folder / f"checkpoint-{usable[-1]}" if usable else start
    processor = Idefics3Processor.from_pretrained(start)
    processor.tokenizer.padding_side = "right"
    model = Idefics3ForConditionalGeneration.from_pretrained(source).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    if usable:
        optimizer.load_state_dict(torch.load(source / "optimizer.pt"))
    for step in range(usable[-1] + 1 if usable else 1, STEPS + 1):
        train(model, optimizer, processor, "B", step)
        if step % EVERY == 0 and step not in complete:
            saved, state = model, optimizer
            if step == WORSE:
                saved = Idefics3ForConditionalGeneration.from_pretrained(start).train()
                state = torch.optim.AdamW(saved.parameters(), lr=3e-3)
                for number in range(1, EVERY + 1):
                    train(saved, state, processor, "C", number)
            save(saved, state, processor, folder / f"checkpoint-{step}", step)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
