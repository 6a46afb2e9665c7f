"""The module-level part, on a machine that has PyTorch and a checkout of the source, no more:

    python -m fairseq_linformer.benchmark OUT --device cuda --minutes 7

measures Table 3 and training steps in fp16, bf16 and fp32 into OUT, a folder of JSON; rerun it to resume. Elsewhere
``fairseq-linformer benchmark report OUT`` makes ledger, tables and figures of it.
"""

import argparse
import shlex
import subprocess
import sys
from pathlib import Path
from typing import List

import torch

from ..machine import current_commit
from . import inference, training
from .arguments import heads_of, numbers, positive, words_of
from .cells import DTYPES, Provenance, Setting, measure
from .models import BARE

LENGTHS = {"cuda": inference.LENGTHS, "cpu": (512, 1024)}
DEFAULT_DTYPES = {"cuda": ["bf16", "fp16", "fp32"], "cpu": ["fp32"]}


def plan(
    device: str, dtypes: List[str], layers: int, tokens: int, rounds: int, lengths, width: int = 768
) -> List[Setting]:
    """The cells, most informative first: training at n = 512, then Table 3, one precision after the other."""
    cells: List[Setting] = []
    for dtype in dtypes:
        common = dict(device=device, dtype=dtype, layers=layers, rounds=rounds, tokens=tokens, embed_dim=width,
                      heads=heads_of(width))  # fmt: skip
        cells += training.rows(lengths=[n for n in lengths if n <= 4096], finetuning=(), models=BARE, **common)
        cells += inference.rows(lengths=lengths, usable_gib=inference.USABLE[device], **common)
    return cells


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(prog="python -m fairseq_linformer.benchmark", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of JSON; new, or one where the same was begun")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", action="append", choices=tuple(DTYPES),
                        help="repeat it for several (all; on a CPU fp32)")  # fmt: skip
    parser.add_argument("--lengths", type=numbers, metavar="N,N", help="n (512 to 65,536; on a CPU to 1,024)")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768, help="d, of heads of 64 (%(default)s)")
    parser.add_argument("--tokens", type=positive, default=training.TOKENS["cuda"], help="of a batch (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=7.0, help="begin nothing that would end later (%(default)s)")
    parser.add_argument("--commit", help="of the source; asked from git if left out")
    args = parser.parse_args(arguments)
    options = words_of(vars(args), but=("out", "minutes", "commit", "dtype"))
    options += [word for dtype in args.dtype or () for word in ("--dtype", dtype)]
    command = shlex.join(["python", "-m", "fairseq_linformer.benchmark", "OUT", *options])
    try:
        commit = args.commit or current_commit()
        cells = plan(args.device, args.dtype or DEFAULT_DTYPES[args.device], args.layers, args.tokens, args.rounds,
                     args.lengths or LENGTHS[args.device], args.width)  # fmt: skip
        left = measure(cells, args.out, Provenance(commit, command), args.minutes)
    except (OSError, subprocess.CalledProcessError):
        sys.exit("benchmark: this is no git checkout, or OUT cannot be written; give --commit, or another folder")
    except ValueError as error:
        sys.exit(f"benchmark: {error}")
    print(f"{len(cells) - len(left)} of {len(cells)} cells are in {args.out}"
          + f"; rerun the same command for the other {len(left)}" * bool(left))  # fmt: skip


if __name__ == "__main__":
    main()
