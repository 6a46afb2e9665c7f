"""The table of bad input: commands as a user types them in the folder of ``world.py``, and what their error names.

One row per kind of error: a sentence in the code that several commands share is here once.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A command that is rejected.

    Attributes:
        command: the command and its subcommand.
        words: the command line in a shell's syntax.
        message: regular expression that the error matches.
    """

    command: str
    words: str
    message: str


def section(command: str, base: str, lines: str) -> list[Case]:
    """Cases ``OPTIONS -> MESSAGE``, one per line, whose options follow those of ``base``."""
    cases = []
    for line in lines.strip().splitlines():
        options, _, message = f" {line.strip()}".rpartition(" -> ")
        cases.append(Case(command, f"{command} {base}{options}".strip(), message))
    return cases


CASES: list[Case] = [
    *section(
        "prepare pretraining",
        "out --tokenizer spm.model",
        """
        --source text.txt --valid-share nan -> --valid-share must .*nan
        --source text.txt --shards 257 -> --shards must be between 1 and 256, got 257
        --source nowhere.txt -> nowhere.txt
        --source bad/empty.txt -> empty.txt
        --source text.txt,colour=red -> colour=red
        --source /dev/zero -> /dev/zero
        --source hub: -> 'hub:' must name
        --source text.txt -> valid is empty.* 1 documents .*blank lines separate the documents of a text file
        --source bad/latin1.txt -> latin1.txt:1: not UTF-8
        --source bad/deep.jsonl -> deep.jsonl is not JSON
        """,
    ),
    *section(
        "prepare pretraining",
        "",
        """
        out --source text.txt -> --tokenizer is required
        out --source text.txt --tokenizer bad/folder -> bad/folder has no tokenizer \\(spm.model
        out --source text.txt --tokenizer text.txt -> text.txt is not a SentencePiece model
        out --source text.txt --tokenizer nowhere -> --tokenizer: nowhere does not exist
        bad/full --source text.txt --tokenizer spm.model -> bad/full must be a new or empty folder
        """,
    ),
    *section(
        "prepare sentencepiece", "out --source text.txt", "--vocab-size 100000 -> Vocabulary size .*100000.*<= 57"
    ),
    *section(
        "prepare sst-2",
        "out --tokenizer spm.model",
        """
        --source text.txt -> must be hub, or an unpacked folder with
        --source glue --train-rows 9999 -> --train-rows must .*9999
        """,
    ),
    *section(
        "prepare own",
        "out --tokenizer spm.model --valid rows.tsv",
        """
        --train text.txt --text-column sentence --label-column label -> text.txt must end in .*tsv.*unpacked
        --train bad/wrong.tsv --text-column sentence --label-column label -> wrong.tsv .*two labels.*bird
        --train rows.tsv --text-column sentence --label-column sentence -> another, got sentence, sentence
        """,
    ),
    *section(
        "plan",
        "",
        """
        --gpu v200 -> v200.*v100-16gb
        bad/nowhere.yaml -> bad/nowhere.yaml does not exist; choose from class.yaml, config.yaml, names.yaml
        bad/config.yaml -> bad/config.yaml
        bad/class.yaml -> bad/class.yaml
        bad/names.yaml -> bad/names.yaml.*modle
        model.projected_dim=600 -> projected_dim must .*600
        model.droput=0 -> droput
        model.dropout=abc -> abc
        base -> configuration base does not exist; choose from configs/pretrain/base.yaml
        +run=tiny bad/names.yaml -> an override must be KEY=VALUE or ~KEY, got bad/names.yaml
        +run=n512 -> run/n512.; choose from n1024-k128-headwise, .*, tiny$
        common.fp16=false common.bf16=true -> v100-16gb does not support bf16
        common.amp=true -> common.amp must .*True
        +model.offload_activations=true -> model.offload_activations must .*True
        model._name=bart_base -> model._name must .*bart_base
        """,
    ),
    *section(
        "submit",
        "",
        """
        +run=n512-roberta -> task.data is not set
        task.data=bad/no-dict -> task.data needs .*dict.txt
        task.data=data:bad/no-train -> bad/no-train/train.idx does not exist
        task.data=data checkpoint.save_dir=/tmp -> checkpoint.save_dir must be checkpoints.* got /tmp
        task.data=data checkpoint.finetune_from_model=nowhere.pt -> finetune_from_model must .*nowhere.pt
        task.data=data --no-sbatch --dry-run -> --dry-run has no effect with --no-sbatch
        task.data=data +model._target_=os.system -> _target_
        """,
    ),
    *section(
        "finetune",
        "",
        r"""
        sst-3 mlm/model.pt -> unknown task or file 'sst-3'; choose from sst-2.* a file
        bad/folder mlm/model.pt -> bad/folder must be a folder that `prepare` wrote, or have .* train.tsv, train.csv
        bad/empty.csv mlm/model.pt -> empty.csv has no rows
        rows.tsv mlm/model.pt -> rows.tsv has only 2 rows.*--valid
        rows.tsv mlm/model.pt --text-column review -> no column review; choose from sentence, label
        rows.tsv mlm/model.pt --source glue -> --source needs a task, got rows.tsv
        data mlm/model.pt --valid rows.tsv -> --valid needs a file of yours, got data
        sst-2 mlm/model.pt --data task --source glue optimization.update_freq=[] -> update_freq must be one number .*
        sst-2 mlm/model.pt --data task --source glue dataset.max_tokens=99 -> dataset.max_tokens=99 cannot be overridden
        sst-2 data -> data has neither a checkpoint nor .*config.json; it is prepared data
        sst-2 bad/grid -> bad/grid has neither .*; choose one of its runs, such as bad/grid/lr1e-05-batch32-seed1
        sst-2 mlm/model.pt --data task --source glue --lr nan -> --lr must .*nan
        sst-2 mlm/model.pt --data task --source glue --dry-run --slurm -> task is not prepared, and --dry-run writes
        sst-2 mlm/model.pt --data task --source glue +dropout=0.3 -> dropout in .* is not a section of .*model
        sst-2 hf/model.safetensors -> hf/model.safetensors is a file of a model; pass its folder
        sst-2 bad/onnx -> onnx must be a fairseq checkpoint or a model of transformers, got an ONNX folder; pass what
        sst-2 mlm/model.pt --data task --source glue --batch 3 -> unrecognized arguments: --batch
        sst-2 mlm/model.pt --data task --source glue common.seed=5 -> common.seed=5 cannot be overridden: TASK
        sst-2 bad/bare/model.pt --data task --source glue -> bare/model.pt.*--tokenizer
        """,
    ),
    *section(
        "evaluate",
        "cls/model.pt rows.tsv",
        """
        --head topic -> --head 'topic'.*animal
        --dictionary bad/dict.txt -> dict.txt .* 28 entries.* 7
        --labels bad/empty.txt -> empty.txt
        --predictions rows.tsv -> rows.tsv already exists
        --predictions p.csv -> --predictions.*p.csv
        --predictions - --json - -> --json must be a file other than --predictions, got -
        --predictions nowhere/p.tsv -> nowhere
        --device tpu -> --device: must be one that PyTorch can use, such as cpu, got .tpu.
        --split test -> --split.*rows.tsv
        --stride 99 -> --stride must be between 1 and n - 2 \\(14\\), got 99
        --text-column sentence --text-column sentence -> --text-column.*sentence, sentence
        """,
    ),
    *section(
        "evaluate",
        "cls/model.pt",
        """
        -> TASK-OR-FILE.*--perplexity
        rows.tsv --perplexity data -> either TASK-OR-FILE or --perplexity DATA-BIN is required, and not both
        nowhere.tsv -> nowhere.tsv
        bad/empty.txt -> empty.txt
        bad/wrong.tsv -> wrong.tsv:2.*bird
        bad/list.jsonl -> list.jsonl must be an array of objects
        data --split test -> unknown --split 'test' of data/input0; choose from train, valid
        data --truncation head -> --truncation has no effect on data
        data --dictionary nowhere.txt -> nowhere.txt, the dictionary of cls/model.pt, does not exist
        """,
    ),
    *section(
        "evaluate",
        "",
        """
        nowhere.pt rows.tsv -> nowhere.pt is not a file
        mlm/model.pt rows.tsv -> no classification head
        bad/half.pt rows.tsv -> half.pt is truncated
        bad/text.pt rows.tsv -> text.pt .*not a PyTorch checkpoint
        bad/code.pt rows.tsv -> code.pt contains code
        bad/list.pt rows.tsv -> list.pt has no 'model'
        bad/no-cfg.pt rows.tsv -> no-cfg.pt has neither 'cfg'
        bad/hf-pickle rows.tsv -> hf-pickle.*pickle
        bad/hf-code rows.tsv -> hf-code
        bad/hf-shards rows.tsv -> hf-shards
        bad/hf-attention rows.tsv -> hf-attention: attn_implementation must be .*some/kernel
        bad/hf-quantized rows.tsv -> hf-quantized must not be quantized
        bad/hf-weights rows.tsv -> hf-weights must not name other weights, but its config.json has transformers_weights
        bad/hf-adapter rows.tsv -> hf-adapter must not be an adapter; merge it into its model
        hf-cls rows.tsv --tokenizer x -> --tokenizer.*fairseq
        hf-cls rows.tsv --max-positions 0 -> --max-positions .*0
        hf-cls data -> fairseq
        hf --perplexity data -> hf must be a fairseq checkpoint, got a model of transformers
        """,
    ),
    *section(
        "evaluate",
        "mlm/model.pt --perplexity",
        """
        nowhere -> nowhere/dict.txt
        bad/swapped -> swapped/dict.txt.*entry 4
        data --tokens-per-sample 17 -> --tokens-per-sample must .*16.*got 17
        data --mask-prob nan -> --mask-prob.*nan
        """,
    ),
    *section(
        "convert",
        "",
        """
        bad/onnx out -> bad/onnx must be a fairseq checkpoint or .*, got an ONNX folder; pass what it was exported
        rob/model.pt bad/full -> bad/full must be a new or empty folder
        rob/model.pt text.txt/out -> text.txt is not a folder
        rob/model.pt out --projected-dim 33 -> projected_dim must .*33
        rob/model.pt out --local-window 32 -> local_window .*32
        rob/model.pt out --arch roberta -> rob/model.pt would stay as it is
        bert out --arch roberta --projected-dim 8 -> --projected-dim has no effect with --arch roberta
        mlm/model.pt out --sharing none -> --sharing has no effect with a Linformer
        mlm/model.pt out --arch roberta --max-positions 8 -> --arch has no effect with a Linformer
        rob/model.pt out --arch roberta --max-positions 0 -> max_positions must be at least 1 .*got 0
        mlm/model.pt out --max-positions 8 --dictionary nowhere.txt -> nowhere.txt does not exist
        bert out --dictionary mlm/dict.txt -> --dictionary has no effect on bert
        bad/bert-deep out -> bert-deep: num_hidden_layers must be between 1 and 1,024, got 10000000
        hf out --dictionary bad/dict.txt -> dict.txt.* 28 .* got 7
        """,
    ),
    *section(
        "export",
        "",
        """
        mlm/model.pt out --head topic -> head 'topic'
        mlm/model.pt out --dictionary bad/dict.txt -> dict.txt must be the tokenizer's dictionary
        mlm/model.pt out --dictionary nowhere.txt -> there is no dict.txt at nowhere.txt
        bad/bare/model.pt out --dictionary mlm/dict.txt -> there is no tokenizer .* in bad/bare; pass --tokenizer, or
        mlm/model.pt out --labels bad/dict.txt -> --labels has no effect
        mlm/model.pt out --no-tokenizer --dictionary mlm/dict.txt -> --dictionary
        mlm/model.pt out --int8 -> --int8, --max-positions and --pooling none need --onnx
        hf out -> hf must be a fairseq checkpoint, got a model of transformers; `convert` makes a checkpoint of it
        bert out --onnx -> bert must be a folder that `export` wrote, got model_type
        hf out --onnx --head other -> hf has its own tokenizer and labels, and one head
        hf out --onnx --max-positions 99 -> --max-positions must .*\\(16\\), got 99
        """,
    ),
    *section(
        "linearize",
        "bert out --text",
        """
        nowhere -> --text must be a folder.*nowhere
        bad/a:b -> --text must be a path without ':'.*bad/a:b
        data -> must be that of the teacher
        data --lr nan -> lr must .*nan
        data --short-seq-prob -0.5 -> short_seq_prob must .*-0.5
        data --tokens-per-sample 99 -> between 2 and the student's 32, got 99
        """,
    ),
    *section(
        "analyze spectrum",
        "mlm/model.pt --source text.txt --out out",
        """
        --suggest-k 1.5 -> --suggest-k must .*1.5
        """,
    ),
    *section("analyze spectrum", "bad/onnx --source text.txt --out out", "-> bad/onnx must be .*, got an ONNX folder"),
    *section(
        "benchmark inference",
        "--encoder-layers 1 --encoder-embed-dim 64",
        """
        --lengths 64 0 -> at least 1, got 0
        --lengths 64 --projected-dim 128 -> --projected-dim .*64
        --lengths 64 256 --projected-dim 128 -> --projected-dim .*64
        --encoder-embed-dim 100 -> 64, got 100
        --lengths 64 --projected-dim 8 --out text.txt -> text.txt
        """,
    ),
    *section(
        "benchmark processes",
        "--data data",
        """
        --dtype fp16 -> --dtype .*fp16
        --data bad/folder -> --data.*bad/folder
        """,
    ),
    *section(
        "reproduce",
        "--results results",
        """
        figure-9 -> 'figure-9'.*figure-3.*table-2
        figure-3 --part a -> --part 'a'.*n=64, RoBERTa, seed 1; n=64, k=32, seed 1
        figure-3 --data nowhere -> --data nowhere.*dict.txt
        figure-3 --data data --runs text.txt -> cannot write to text.txt
        figure-3 -> figure-3 reads --data at this scale, got none
        figure-3 --data data --encoder bert -> figure-3 reads --data at this scale, got --data --encoder
        """,
    ),
    *section("path", "", "elsewhere -> 'elsewhere'.*plugin"),
    *section("", "", "-> COMMAND\nevaluat -> 'evaluat'\n--nothing -> COMMAND|--nothing"),
]
