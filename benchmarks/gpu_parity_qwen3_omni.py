"""Each part of Qwen3-Omni in full size beside the same part of `transformers`, in bf16 on a GPU.

Random weights are made once, on the device, and both sides hold the same tensors: the reference's
modules are built without memory of their own. Part by part: the relative error of ours against
theirs, and where float32 fits beside them, of both against that. For the Thinker also how many of
64 greedy tokens are the same, after the reference's own tokens and going on by itself. Rows of the
output head differ in size here, as trained ones do: with rows of one size the greatest logit of
152,064 is hardly above the next.

    python benchmarks/gpu_parity_qwen3_omni.py [--sizes specs/random/qwen3_omni.yaml] [--out FILE]
"""

import argparse
import copy
import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from sides_of_omni import DEVICE, Node, Parts, Table, relative, share

from mstarc_runtime.engine.context import StatelessContext
from mstarc_runtime.models.qwen3_omni import (
    AudioTower,
    Code2Wav,
    CodePredictor,
    Talker,
    Thinker,
    VisionTower,
)
from mstarc_runtime.plan_api import Maybe

ALONE = StatelessContext(batch=1, device=DEVICE)


def audio(parts: Parts, table: Table) -> None:
    from transformers.models.qwen3_omni_moe import modeling_qwen3_omni_moe as reference

    ours = parts.ours(AudioTower, 0)
    theirs = parts.theirs(
        reference.Qwen3OmniMoeAudioEncoder, parts.config.thinker_config.audio_config
    )
    share(ours, theirs)
    exact = copy.deepcopy(theirs).float()
    for frames in (137, 1003):
        mel = torch.randn(128, frames, device=DEVICE)
        length = torch.tensor([frames], device=DEVICE)
        table.compare(
            f"audio tower, {frames} frames",
            ours.heard(mel[None].to(parts.dtype)),
            theirs(mel.to(parts.dtype), feature_lens=length).last_hidden_state,
            exact(mel, feature_lens=length).last_hidden_state,
        )


def vision(parts: Parts, table: Table) -> None:
    from transformers.models.qwen3_omni_moe import modeling_qwen3_omni_moe as reference

    ours = parts.ours(VisionTower, 1)
    theirs = parts.theirs(
        reference.Qwen3OmniMoeVisionEncoder, parts.config.thinker_config.vision_config
    )
    share(ours, theirs)
    exact = copy.deepcopy(theirs).float()
    for frames, height, width in ((1, 16, 24), (2, 12, 12)):
        px = torch.randint(0, 256, (frames * height * width, 1536), device=DEVICE).byte()
        grid = torch.tensor([(frames, height, width)], device=DEVICE)
        pixels = px / 127.5 - 1.0
        emb, deep = ours.seen(px.view(1, frames, height // 2, width // 2, -1))
        made = theirs(pixels.to(parts.dtype), grid_thw=grid)
        wanted = exact(pixels, grid_thw=grid)
        name = f"vision tower, {frames} x {height} x {width} patches"
        table.compare(name, emb, made.pooler_output, wanted.pooler_output)
        table.compare(
            f"{name}, deep stack",
            deep[0].transpose(0, 1),
            torch.stack(made.deepstack_features),
            torch.stack(wanted.deepstack_features),
        )


def thinker(parts: Parts, table: Table, *, prompt: int = 64, tokens: int = 64) -> None:
    from transformers.models.qwen3_omni_moe import modeling_qwen3_omni_moe as reference

    ours = parts.ours(Thinker, 2)
    head = ours.head.weight
    head.mul_(torch.exp(torch.randn(head.shape[0], 1, device=DEVICE)).to(head.dtype))
    theirs = parts.theirs(
        reference.Qwen3OmniMoeThinkerForConditionalGeneration, parts.config.thinker_config
    )
    share(ours, theirs)
    ids = torch.randint(0, 400, (prompt,), device=DEVICE)
    began = time.perf_counter()
    made = theirs.generate(
        input_ids=ids[None],
        attention_mask=torch.ones_like(ids)[None],
        max_new_tokens=tokens,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )[0, prompt:]
    print(f"the reference wrote {tokens} tokens in {time.perf_counter() - began:.1f} s", flush=True)
    whole = theirs(input_ids=torch.cat([ids, made])[None], output_hidden_states=True)
    wanted = whole.logits[0].float()

    node = Node(ours, rows=prompt + tokens + 16, dtype=parts.dtype)
    _, h = ours.text(node.packed(prompt), ids)
    table.compare("Thinker, rows of the prompt", h, whole.hidden_states[0][0, :prompt])
    table.compare("Thinker, logits behind the prompt", node.logits[-1], wanted[prompt - 1])
    for token in made[:-1]:
        ours.step(node.step(), token[None], True)
    logits = torch.cat(node.logits)
    table.compare(
        f"Thinker, logits of {tokens - 1} steps", logits[1:], wanted[prompt : prompt + tokens - 1]
    )
    gaps = wanted[prompt - 1 : -1].topk(2, -1).values
    same = logits.argmax(-1) == made

    alone = Node(ours, rows=prompt + tokens + 16, dtype=parts.dtype)
    token, _ = ours.text(alone.packed(prompt), ids)
    written = [int(token)]
    for _ in range(tokens - 1):
        token, _ = ours.step(alone.step(), token, True)
        written.append(int(token))
    equal = [a == b for a, b in zip(written, made.tolist(), strict=True)]
    table.add(
        {
            "what": f"Thinker, {tokens} greedy tokens",
            "same_after_theirs": int(same.sum()),
            "least_gap": round(float(((gaps[:, 0] - gaps[:, 1]) / gaps[:, 0]).min()), 4),
            "same_alone": equal.index(False) if False in equal else tokens,
            "different": len(set(made.tolist())),
        }
    )


def talker(parts: Parts, table: Table, *, prompt: int = 40, frames: int = 8) -> None:
    from transformers.models.qwen3_omni_moe import modeling_qwen3_omni_moe as reference

    ours, own = parts.ours(Talker, 3), parts.config.talker_config
    theirs = parts.theirs(reference.Qwen3OmniMoeTalkerForConditionalGeneration, own)
    share(ours, theirs)
    exact = copy.deepcopy(theirs.model).float()
    width = own.thinker_hidden_size
    h = torch.randn(prompt, width, device=DEVICE).to(parts.dtype)
    media = torch.arange(prompt, device=DEVICE) % 3 == 1
    places = torch.arange(prompt, device=DEVICE)[:, None].expand(-1, 3)
    words = torch.randn(frames + 1, width, device=DEVICE).to(parts.dtype)
    marks = [own.codec_nothink_id, own.codec_think_bos_id, own.codec_think_eos_id]
    speaker = next(iter(own.speaker_id.values()))
    marks += [speaker, own.codec_pad_id, own.codec_bos_id]
    groups, count = own.num_code_groups, own.code_predictor_config.vocab_size
    codes = torch.randint(0, count, (frames, groups), device=DEVICE)

    rows = torch.where(media[:, None], theirs.hidden_projection(h), theirs.text_projection(h))
    table_of = ours.words_embedding.weight
    said = torch.cat([table_of[:1].expand(4, -1), table_of[1:2], words[:1]])
    embed = theirs.model.get_input_embeddings()
    opening = theirs.text_projection(said) + embed(torch.tensor(marks, device=DEVICE))
    rest = theirs.code_predictor.get_input_embeddings()
    spoken = embed(codes[:, 0]) + sum(rest[g](codes[:, g + 1]) for g in range(groups - 1))
    spoken = spoken + theirs.text_projection(words[1:])
    given = torch.cat([rows, opening, spoken])[None]
    at = torch.arange(given.shape[1], device=DEVICE).expand(3, 1, -1)
    made = theirs.model(inputs_embeds=given, position_ids=at).last_hidden_state[0]
    wanted = exact(inputs_embeds=given.float(), position_ids=at).last_hidden_state[0]

    node = Node(ours, rows=256, dtype=parts.dtype)
    behind = ours.prefill(node.packed(prompt), h, media, places)
    yes = torch.tensor([True], device=DEVICE)
    _, past, ahead = ours.begin(
        node.packed(6),
        Maybe(value=words[:1], there=yes),
        torch.tensor([speaker], device=DEVICE),
        behind,
    )
    table.compare("Talker, row behind the opening", past, made[prompt + 5], wanted[prompt + 5])
    pasts = []
    for number in range(frames):
        word = Maybe(value=words[number + 1 : number + 2], there=yes)
        _, past = ours.step(node.step(), codes[number : number + 1], word, ahead)
        pasts.append(past.clone())
    table.compare(
        f"Talker, rows of {frames} steps", torch.cat(pasts), made[-frames:], wanted[-frames:]
    )

    codes_of(parts, table, theirs)


def codes_of(parts: Parts, table: Table, theirs: Any) -> None:
    """The code predictor, on frames of one request."""
    ours = parts.ours(CodePredictor, 4)
    share(ours, theirs.code_predictor)
    embed = theirs.model.get_input_embeddings()
    # The Talker's table is the first of the predictor's.
    first = torch.nn.Parameter(ours.embedding.weight[: embed.weight.shape[0]], requires_grad=False)
    embed.weight = first
    same, errors = 0, []
    frames, steps = 4, ours.groups - 1
    for number in range(frames):
        past = torch.randn(1, first.shape[1], device=DEVICE).to(parts.dtype)
        code = torch.tensor([number * 7 + 3], device=DEVICE)
        rows = torch.stack([past, embed(code)], dim=1)
        made = theirs.code_predictor.generate(
            inputs_embeds=rows,
            max_new_tokens=steps,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
        codes = made.sequences[0]
        node = Node(ours, rows=ours.groups, dtype=parts.dtype)
        ours.prime(node.step(), past)
        for depth in range(steps):
            ours.step(node.step(), code, depth)
            code = codes[depth : depth + 1]
        logits, wanted = torch.cat(node.logits), torch.cat(made.logits)
        same += int((logits.argmax(-1) == codes).sum())
        errors.append(relative(logits, wanted))
    table.add(
        {
            "what": f"code predictor, logits of {frames} frames",
            "relative": max(errors),
            "same_codes": same,
            "of_codes": frames * steps,
        }
    )


def sound(parts: Parts, table: Table) -> None:
    from transformers.models.qwen3_omni_moe import modeling_qwen3_omni_moe as reference

    ours = parts.ours(Code2Wav, 5)
    # With weights of one size its sines make noise of any difference, as trained ones do not.
    for name, parameter in ours.named_parameters():
        if name.endswith(("alpha", "beta")):
            parameter.uniform_(-0.3, 0.3)
        elif parameter.dim() > 1:
            parameter.mul_(0.5)
    config = parts.config.code2wav_config
    theirs = parts.theirs(reference.Qwen3OmniMoeCode2Wav, config)
    share(ours, theirs)
    exact = copy.deepcopy(theirs).float()
    codes = torch.randint(0, config.codebook_size, (1, config.num_quantizers, 100), device=DEVICE)
    table.compare(
        "Code2Wav, 100 frames",
        ours.decode(ALONE, codes.transpose(1, 2)),
        theirs(codes)[:, 0],
        exact(codes)[:, 0],
    )


PARTS: dict[str, Callable[[Parts, Table], None]] = {
    "audio": audio,
    "vision": vision,
    "talker": talker,
    "sound": sound,
    "thinker": thinker,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=Path, default=Path("specs/random/qwen3_omni.yaml"))
    parser.add_argument("--parts", nargs="+", choices=[*PARTS], default=[*PARTS])
    parser.add_argument("--float32", action="store_true", help="instead of bf16")
    parser.add_argument("--out", type=Path, help="a file for all rows as JSON")
    given = parser.parse_args()
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    parts = Parts(given.sizes, torch.float32 if given.float32 else torch.bfloat16)
    table, failed = Table(), False
    for name in given.parts:
        began = time.perf_counter()
        try:
            PARTS[name](parts, table)
        except Exception:
            failed = True
            traceback.print_exc()
        print(f"{name}: {time.perf_counter() - began:.1f} s", flush=True)
        if DEVICE.type == "cuda":
            torch.cuda.empty_cache()
    if given.out is not None:
        given.out.write_text(json.dumps(table.rows, indent=1))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
