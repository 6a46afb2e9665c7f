"""The table of bad input: commands as a user types them in the folder of ``world.py``, and what their error names."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A command that is rejected."""

    command: str
    """The command and its subcommand."""
    subject: str
    """What is wrong with it, for the table of docs/robustness.md."""
    words: str
    """The command line in a shell's syntax."""
    message: str
    """Regular expression that the error matches."""


def section(command: str, subject: str, base: str, lines: str) -> list[Case]:
    """Cases ``OPTIONS -> MESSAGE``, one per line, whose options follow those of ``base``; <newline> is a line break."""
    cases = []
    for line in lines.strip().splitlines():
        options, _, message = f" {line.strip()}".rpartition(" -> ")
        words = f"{command} {base}{options}".replace("<newline>", "\n").strip()
        cases.append(Case(command, subject, words, message))
    return cases


PREPARE = [
    *section(
        "prepare pretraining",
        "options out of range",
        "out --source text.txt --sentencepiece-model spm.model",
        """
        --valid-share 0 -> --valid-share must .*0.0
        --valid-share nan -> --valid-share must .*nan
        --shards 0 -> --shards must be between 1 and 256, got 0
        --shards 257 -> --shards must .*257
        --workers 0 -> --workers must be at least 1, got 0
        """,
    ),
    *section(
        "prepare pretraining",
        "sources",
        "out --sentencepiece-model spm.model",
        """
        --source nowhere.txt -> nowhere.txt
        --source '' -> --source: must not be empty
        --source 'nothing-*.txt' -> nothing-\\*.txt
        --source bad/empty.txt -> empty.txt
        --source bad/folder -> bad/folder
        --source text.txt,colour=red -> colour=red
        --source text.txt,rows=0 -> rows=0
        --source text.txt,format=doc -> format=doc
        --source bad/half.parquet -> half.parquet is truncated or damaged
        --source bad/noise.txt.gz -> noise.txt.gz is truncated or damaged
        --source bad/noise.txt.xz -> noise.txt.xz is truncated or damaged
        --source /dev/zero -> /dev/zero
        --source hub: -> 'hub:' must name
        """,
    ),
    *section(
        "prepare pretraining",
        "unusable documents",
        "out --sentencepiece-model spm.model",
        """
        --source text.txt -> valid is empty.*raise --valid-share
        --source bad/latin1.txt -> latin1.txt, line 1 is not UTF-8
        --source bad/deep.jsonl -> deep.jsonl, line 1 is not JSON
        --source bad/rows.jsonl -> rows.jsonl, row 1 has no column 'text'; choose from sentence, label
        --source bad/rows.jsonl,column=sentence -> rows.jsonl, line 2 is not JSON
        --source bad/list.jsonl -> list.jsonl, line 1 is not a JSON object
        """,
    ),
    *section(
        "prepare pretraining",
        "tokenizer and output folder",
        "",
        """
        out --source text.txt -> --gpt2-bpe --sentencepiece-model --tokenizer-json
        out --source text.txt --sentencepiece-model nowhere.model -> nowhere.model
        out --source text.txt --sentencepiece-model bad/noise.model -> noise.model
        out --source text.txt --sentencepiece-model bad/half.model -> half.model
        out --source text.txt --sentencepiece-model bad/folder -> bad/folder
        out --source text.txt --gpt2-bpe bad/folder -> encoder.json
        out --source text.txt --tokenizer-json text.txt -> text.txt is not a tokenizer.json
        out --source text.txt --tokenizer-json nowhere.json -> nowhere.json does not exist
        out --source text.txt --sentencepiece-model spm.model --tokenizer-json bert/tokenizer.json -> not allowed with
        bad/full --source text.txt --sentencepiece-model spm.model -> bad/full must be a new or empty folder
        text.txt --source rows.tsv,format=text --sentencepiece-model spm.model -> text.txt must be a new or empty folder
        text.txt/out --source rows.tsv,format=text --sentencepiece-model spm.model -> text.txt
        """,
    ),
    *section(
        "prepare sentencepiece",
        "options, source and output folder",
        "",
        """
        out --source text.txt -> --vocab-size
        out --source text.txt --vocab-size 0 -> vocab.size .*0
        out --source text.txt --vocab-size -5 -> vocab.size .*-5
        out --source text.txt --vocab-size 100000 -> Vocabulary size .*100000.*<= 57
        out --source text.txt --vocab-size 24 --sample-mib 0 -> sample.mib .*0
        out --source text.txt --vocab-size 24 --sample-mib nan -> sample.mib .*nan
        out --source text.txt --vocab-size 24 --model-type char -> 'char'.*bpe
        out --source nowhere.txt --vocab-size 24 -> nowhere.txt
        out --source bad/empty.txt --vocab-size 24 -> empty.txt
        bad/full --source text.txt --vocab-size 24 -> bad/full must be a new or empty folder
        text.txt --source rows.tsv,format=text --vocab-size 24 -> text.txt must be a new or empty folder
        """,
    ),
    *section(
        "prepare sst-2",
        "options, source and output folder",
        "",
        """
        out --source glue -> --sentencepiece-model
        out --source nowhere --sentencepiece-model spm.model -> nowhere
        out --source bad/folder --sentencepiece-model spm.model -> bad/folder
        out --source text.txt --sentencepiece-model spm.model -> text.txt is not a folder; unpack archives first
        out --source glue --sentencepiece-model spm.model --max-positions 2 -> max.positions .*2
        out --source glue --sentencepiece-model spm.model --train-rows 0 -> --train-rows must be at least 1, got 0
        out --source glue --sentencepiece-model spm.model --train-rows 9999 -> --train-rows must .*9999
        out --source glue --sentencepiece-model spm.model --valid-rows -1 -> --valid-rows must be at least 1, got -1
        out --source glue --sentencepiece-model spm.model --truncation middle -> 'middle'.*head
        out --source glue --sentencepiece-model bad/noise.model -> noise.model
        bad/full --source glue --sentencepiece-model spm.model -> bad/full must be a new or empty folder
        """,
    ),
    *section(
        "prepare own",
        "files, columns and output folder",
        "--sentencepiece-model spm.model --valid rows.tsv",
        """
        out --train rows.tsv --text-column sentence -> --label-column
        out --train nowhere.tsv --text-column sentence --label-column label -> nowhere.tsv
        out --train text.txt --text-column sentence --label-column label -> text.txt must end in .*tsv.*unpacked
        out --train bad/packed.pt --text-column sentence --label-column label -> packed.pt must end in
        out --train bad/half.parquet --text-column sentence --label-column label -> half.parquet is not a parquet file
        out --train bad/no-columns.tsv --text-column sentence --label-column label -> no column sentence; choose from x
        out --train bad/deep.jsonl --text-column sentence --label-column label -> deep.jsonl:1: not a JSON object
        out --train bad/wrong.tsv --text-column sentence --label-column label -> wrong.tsv .*two labels.*bird
        out --train rows.tsv --text-column sentence --label-column sentence -> different, got sentence, sentence
        bad/full --train rows.tsv --text-column sentence --label-column label -> bad/full must be a new or empty folder
        """,
    ),
    *section("prepare", "unknown data", "", "sst-3 out -> 'sst-3'.*sst-2\n -> the following arguments are required"),
]

PLAN = section(
    "plan",
    "options and configurations",
    "",
    """
    --gpu v200 -> v200.*v100-16gb
    --gpus 0 -> gpus .*0
    --gpus -8 -> gpus .*-8
    --gpus 96 -> gpus .*96
    --utilization 0 -> utilization .*0
    --utilization 35 -> utilization .*35
    --utilization nan -> utilization .*nan
    --check model.dropout=0 -> --check takes only CONFIG and --gpu
    --cheque -> --cheque
    nowhere.yaml -> nowhere.yaml does not exist
    text.txt -> text.txt
    bad/folder -> bad/folder
    bad/config.yaml -> bad/config.yaml
    bad/list.yaml -> bad/list.yaml
    bad/class.yaml -> bad/class.yaml
    bad/names.yaml -> bad/names.yaml.*modle
    configs/pretrain/base.yaml configs/pretrain/base.yaml -> second configuration
    model.projected_dim=0 -> projected_dim must .*0
    model.projected_dim=600 -> projected_dim must .*600
    model.projected_dim=many -> projected_dim .*many
    model.projected_dim=[1,2] -> projected_dim .*1.*2
    model.droput=0 -> droput
    model.dropout=2 -> dropout must .*2
    model.dropout=abc -> abc
    +model.encoder_layers=0 -> encoder_layers must be at least 1, got 0
    +model.encoder_attention_heads=5 -> encoder_attention_heads must divide .*5
    model.sharing=rows -> 'rows'
    model._name=gpt -> gpt
    task.tokens_per_sample=0 -> tokens_per_sample must be at least 1, got 0
    task.tokens_per_sample=-5 -> tokens_per_sample must be at least 1, got -5
    dataset.batch_size=0 -> batch_size .*0
    dataset.batch_size=-3 -> batch_size .*-3
    optimization.update_freq=[0] -> update_freq.*0
    optimization.update_freq=[] -> update_freq.*None
    optimization.max_update=0 -> max_update .*0
    optimizer=sgd -> sgd
    optimizer._name=sgd -> optimizer._name .*sgd
    +run=nothing -> nothing
    common.fp16=maybe -> maybe
    ~nothing -> nothing
    model.dropout=${oc.env:HOME} -> dropout
    model.dropout='${nothing}' -> nothing
    """,
)

SUBMIT = [
    *section(
        "submit",
        "options",
        "task.data=data",
        """
        --nodes=3 -> 128 micro-batches.* 24
        --nodes=0 -> --nodes must be at least 1, got 0
        --nodes=many -> --nodes.*'many'
        --ntasks-per-node=-1 -> --ntasks-per-node must be at least 1, got -1
        --device=tpu -> --device.*'tpu'.*cuda
        --name=../mine -> --name must .*\\.\\./mine
        --name=/tmp/mine -> --name must .*/tmp/mine
        --name=. -> --name must
        --runs= -> --runs: must not be empty
        --array=figure-4 -> figure-4.*figure-3a
        --array=table-2 -> --tasks
        --array=figure-3b task.data=nowhere -> n1024-roberta: task.data.*nowhere
        --array=figure-3a --name=mine -> --name.*mine
        --array=figure-3a --config=mine.yaml -> --config.*mine.yaml
        --tasks=data -> --tasks needs --array table-2
        nonsense -> nonsense
        """,
    ),
    *section(
        "submit",
        "configuration",
        "",
        """
        +run=n512-roberta -> task.data is not set
        task.data=nowhere -> task.data needs .*nowhere
        task.data=text.txt -> task.data needs .*text.txt
        task.data=bad/no-dict -> task.data needs .*dict.txt
        task.data=bad/no-train -> bad/no-train/train.idx does not exist
        task.data=data:nowhere -> nowhere/train.idx does not exist
        task.data=data --config=nowhere.yaml -> nowhere.yaml does not exist
        task.data=data --config=bad/class.yaml -> bad/class.yaml
        task.data=data model.projekted_dim=5 -> projekted_dim
        "task.data=data 'optimizer.adam_betas=__import__(\\"os\\").mkdir(\\"executed\\")'" -> adam_betas=__import__
        task.data=data checkpoint.finetune_from_model=nowhere.pt -> finetune_from_model must .*nowhere.pt
        task.data=data +model._target_=os.system -> _target_
        """,
    ),
]

FINETUNE = [
    *section(
        "finetune",
        "options",
        "sst-2 mlm/model.pt --data task --source glue --device cpu",
        """
        --lr 0 -> --lr must .*0.0
        --lr nan -> --lr must .*nan
        --lr ten -> --lr.*'ten'
        --lr '' -> --lr: must not be empty
        --lr 1e-5,1e-5 -> --lr must not repeat.*1e-05, 1e-05
        --max-epoch 0 -> --max-epoch must .*0
        --batch-size 0 -> --batch-size must .*0
        --batch-size -8 -> --batch-size must .*-8
        --seed -1 -> --seed must .*-1
        --seed 99999999999 -> --seed must .*4294967295.*99999999999
        --seed 1,1 -> --seed.*1, 1
        --dry-run -> task is not prepared, and --dry-run writes nothing
        --partition=gpu -> --partition=gpu.*--slurm
        --batch 3 -> unknown option --batch
        --name ../up -> --name must .*\\.\\./up
        --name /tmp/up -> --name must .*/tmp/up
        --max-positions 0 -> --max-positions must .*0
        --max-positions 100000000 -> --max-positions must .*1,048,576.*100000000
        --truncation middle -> 'middle'
        --runs '' -> --runs: must not be empty
        --data '' -> --data: must not be empty
        --sentencepiece-model nowhere.model -> nowhere.model does not exist
        --sentencepiece-model bad/noise.model -> noise.model
        --source nowhere -> nowhere
        """,
    ),
    *section(
        "finetune",
        "overrides",
        "sst-2 mlm/model.pt --data task --source glue --device cpu",
        """
        nonsense -> nonsense
        common.seed=5 -> common.seed=5 cannot be overridden: TASK, CHECKPOINT and
        model.sharing=none -> model.sharing=none cannot be overridden
        optimization={lr:[0.5]} -> optimization={lr:\\[0.5\\]} cannot be overridden
        lr_scheduler=fixed -> lr_scheduler=fixed cannot be overridden
        checkpoint.best_checkpoint_metric=loss -> checkpoint.best_checkpoint_metric=loss cannot be overridden
        task.num_classes=3 -> task.num_classes=3 cannot be overridden
        optimization.update_freq=[2] -> optimization.update_freq=\\[2\\] cannot be overridden
        optimization.nope=3 -> nope
        model.droput=1 -> droput
        """,
    ),
    *section(
        "finetune",
        "checkpoints and data",
        "",
        """
        sst-3 mlm/model.pt -> 'sst-3'.*sst-2
        own mlm/model.pt --data data --device cpu -> --data must be a folder that .*prepare own.*data
        sst-2 nowhere.pt --data task --source glue --device cpu -> nowhere.pt is not a file
        sst-2 bad/half.pt --data task --source glue --device cpu -> half.pt is truncated
        sst-2 bad/empty.pt --data task --source glue --device cpu -> empty.pt is truncated
        sst-2 bad/code.pt --data task --source glue --device cpu -> code.pt contains code
        sst-2 bad/old-code.pt --data task --source glue --device cpu -> old-code.pt contains code
        sst-2 bad/pickle.pt --data task --source glue --device cpu -> pickle.pt is truncated, or is not
        sst-2 bad/list.pt --data task --source glue --device cpu -> list.pt has no 'model'
        sst-2 mlm/model.pt --data bad/full --source glue --device cpu -> bad/full
        sst-2 mlm/model.pt --data text.txt --source glue --device cpu -> text.txt
        sst-2 bad/folder --source glue --device cpu -> bad/folder
        sst-2 bad/bare/model.pt --data task --source glue --device cpu -> bare/model.pt.*--sentencepiece-model
        """,
    ),
]

EVALUATE = [
    *section(
        "evaluate",
        "options",
        "cls/model.pt rows.tsv --device cpu",
        """
        --head topic -> --head 'topic'.*animal
        --dictionary nowhere.txt -> nowhere.txt.*does not exist
        --dictionary bad/dict.txt -> dict.txt .* 28 entries.* 7
        --dictionary bad/counts.txt -> counts.txt
        --dictionary bad/latin1.txt -> latin1.txt
        --labels nowhere.txt -> nowhere.txt
        --labels bad/empty.txt -> empty.txt
        --gpt2-bpe bad/folder -> encoder.json
        --sentencepiece-model bad/noise.model -> noise.model
        --predictions rows.tsv -> rows.tsv already exists
        --predictions p.csv -> --predictions.*p.csv
        --predictions nowhere/p.tsv -> nowhere
        --predictions - --json - -> --json
        --json rows.tsv -> rows.tsv already exists
        --json nowhere/x.json -> nowhere
        --json s.jsonl --predictions s.jsonl -> --json.*s.jsonl
        --batch-size 0 -> --batch-size.* 1.* 0
        --batch-size -1 -> --batch-size.* 1.* -1
        --max-tokens 0 -> --max-tokens.* 0
        --split test -> --split.*rows.tsv
        --seed 3 -> --seed.*--perplexity
        --mask-prob 0.5 -> --mask-prob.*--perplexity
        --device tpu9 -> --device tpu9
        --device meta -> --device meta
        --device '' -> --device
        --max-positions 8 -> --max-positions.*transformers
        --format xml -> --format.*xml
        --text-column nothing -> no column nothing; choose from sentence, label
        --label-column nothing -> no column nothing; choose from sentence, label
        --text-column sentence --text-column sentence -> --text-column.*sentence, sentence
        --truncation middle -> 'middle'
        --source glue -> --source
        """,
    ),
    *section(
        "evaluate",
        "files of rows and tasks",
        "cls/model.pt",
        """
        -> TASK-OR-FILE.*--perplexity
        nowhere.tsv -> nowhere.tsv
        bad/empty.txt -> empty.txt
        bad/folder -> bad/folder
        bad/wrong.tsv -> wrong.tsv:2.*bird
        bad/ragged.tsv -> ragged.tsv:2
        bad/no-columns.tsv -> no-columns.tsv
        bad/rows.jsonl -> rows.jsonl:2
        bad/deep.jsonl -> deep.jsonl:1
        bad/list.jsonl -> list.jsonl:1
        bad/half.pt -> half.pt
        bad/half-idx -> half-idx/input0/valid
        bad/empty-idx -> empty-idx/input0/valid
        bad/foreign-idx -> foreign-idx/input0/valid
        bad/empty-bin -> empty-bin/input0/valid
        bad/no-dict -> bad/no-dict
        data --split test -> input0/test.idx does not exist
        data --split '' -> --split
        data --truncation head -> --truncation .*data
        sts-b -> sts-b.*scores.*classes
        mnli -> mnli.*animal: cat, dog
        rows.tsv --perplexity data -> TASK-OR-FILE.*--perplexity
        """,
    ),
    *section(
        "evaluate",
        "checkpoints",
        "",
        """
        nowhere.pt rows.tsv -> nowhere.pt is not a file
        bad/folder rows.tsv -> cannot load.*bad/folder|bad/folder
        mlm/model.pt rows.tsv -> no classification head
        bad/half.pt rows.tsv -> half.pt is truncated
        bad/text.pt rows.tsv -> text.pt .*not a PyTorch checkpoint
        bad/code.pt rows.tsv -> code.pt contains code
        bad/old-code.pt rows.tsv -> old-code.pt contains code
        bad/pickle.pt rows.tsv -> pickle.pt is truncated, or is not
        bad/no-cfg.pt rows.tsv -> no-cfg.pt has neither 'cfg'
        bad/hf-pickle rows.tsv -> hf-pickle.*pickle
        bad/hf-half rows.tsv -> hf-half
        bad/hf-code rows.tsv -> hf-code
        bad/hf-json rows.tsv -> hf-json
        bad/hf-shards rows.tsv -> hf-shards
        bad/hf-attention rows.tsv -> hf-attention: attn_implementation must be .*some/kernel
        bad/hf-quantized rows.tsv -> hf-quantized must not be quantized
        bad/hf-labels rows.tsv -> hf-labels: id2label must have strings, got \\['b'\\] for 1
        hf-cls rows.tsv --gpt2-bpe x -> --gpt2-bpe.*fairseq
        hf-cls rows.tsv --max-positions 0 -> --max-positions .*0
        hf-cls data -> fairseq
        """,
    ),
    *section(
        "evaluate",
        "perplexity",
        "mlm/model.pt --device cpu --perplexity",
        """
        '' -> --perplexity: must not be empty
        nowhere -> nowhere/dict.txt
        bad/folder -> folder/dict.txt
        bad/half-idx -> half-idx/valid
        bad/empty-idx -> empty-idx/valid
        bad/foreign-idx -> foreign-idx/valid
        bad/empty-bin -> empty-bin/valid
        bad/swapped -> swapped/dict.txt.*entry 4
        data --split test -> test.idx
        data --split ../data/valid -> --split must .*'\\.\\./data/valid'
        data --tokens-per-sample 17 -> --tokens-per-sample must .*16.*got 17
        data --tokens-per-sample 1 -> --tokens-per-sample must .*got 1
        data --max-tokens 0 -> --max-tokens.* 1.* 0
        data --seed -1 -> --seed.* 0 .*-1
        data --mask-prob 1 -> --mask-prob.* 0 .* 1, got 1.0
        data --mask-prob nan -> --mask-prob.*nan
        data --head animal -> --head.*--perplexity
        """,
    ),
]

CONVERT = [
    *section(
        "convert",
        "options, checkpoints and folders",
        "",
        """
        nowhere.pt out -> nowhere.pt is not a file
        ./nowhere out -> ./nowhere is not a folder
        bad/folder out -> bad/folder
        '' out -> must not be empty
        rob/model.pt bad/full -> bad/full must be a new or empty folder
        rob/model.pt text.txt/out -> text.txt is not a folder
        rob/model.pt out --projected-dim 33 -> projected_dim must .*33
        rob/model.pt out --projected-dim many -> 'many'
        rob/model.pt out --projected-dim 8x99999999999 -> projected_dim .*8x99999999999
        rob/model.pt out --sharing rows -> 'rows'
        rob/model.pt out --projection random --projection-init average -> projection_init must
        rob/model.pt out --local-window -1 -> local_window .*-1
        rob/model.pt out --max-positions 0 -> max_positions .*0
        rob/model.pt out --max-positions 99999999999 -> max_positions .*1,048,576.*99999999999
        rob/model.pt out --seed -1 -> seed .*-1
        rob/model.pt out --arch roberta -> rob/model.pt would stay as it is
        rob/model.pt out --arch bert -> 'bert'.*roberta
        bert out --arch roberta --projected-dim 8 -> --projected-dim has no effect with --arch roberta
        mlm/model.pt out -> mlm/model.pt would stay as it is
        mlm/model.pt out --sharing none -> --sharing has no effect with a Linformer
        mlm/model.pt out --max-positions 8 --projected-dim 9 -> max_positions \\(8\\), got 9
        mlm/model.pt out --max-positions 8 --dictionary nowhere.txt -> nowhere.txt does not exist
        bad/half.pt out -> half.pt is truncated
        bad/list.pt out -> list.pt has no 'model'
        bad/no-cfg.pt out -> neither 'cfg'
        bad/code.pt out -> code.pt contains code
        bad/old-code.pt out -> old-code.pt contains code
        bad/pickle.pt out -> pickle.pt is truncated, or is not
        bert out --dictionary mlm/dict.txt -> --dictionary has no effect on bert
        bad/bert-deep out -> bert-deep: num_hidden_layers must be between 1 and 1,024, got 10000000
        bad/hf-code out -> hf-code
        bad/hf-pickle out -> hf-pickle has its weights as a pickle, which can contain code
        bad/hf-half out -> model.safetensors is truncated
        bad/hf-json out -> config.json
        bad/hf-shards out -> hf-shards.* must name safetensors files next to it, got '../outside.safetensors'
        hf out --dictionary bad/dict.txt -> dict.txt.* 28 .* got 7
        """,
    ),
    *section(
        "export",
        "options, checkpoints and folders",
        "",
        """
        mlm/model.pt bad/full -> bad/full must be a new or empty folder
        mlm/model.pt text.txt -> text.txt must be a new or empty folder
        mlm/model.pt out --head topic -> head 'topic'
        mlm/model.pt out --dictionary nowhere.txt -> nowhere.txt does not exist
        mlm/model.pt out --dictionary bad/dict.txt -> dict.txt must be the tokenizer's dictionary
        mlm/model.pt out --dictionary bad/latin1.txt -> latin1.txt
        mlm/model.pt out --sentencepiece-model bad/noise.model -> noise.model
        mlm/model.pt out --labels bad/dict.txt -> --labels has no effect
        mlm/model.pt out --no-tokenizer --dictionary mlm/dict.txt -> --dictionary
        mlm/model.pt out --int8 -> --int8 and --max-positions need --onnx
        cls/model.pt out --labels bad/empty.txt -> empty.txt
        rob/model.pt out -> roberta|Linformer
        hf out -> hf is not a file; expected a fairseq checkpoint
        bad/code.pt out -> code.pt contains code
        bad/half.pt out -> half.pt is truncated
        bad/run/checkpoints/model.pt out -> result.json is not JSON
        nowhere out --onnx -> nowhere
        bert out --onnx -> 'bert'
        bad/hf-pickle out --onnx -> hf-pickle has its weights as a pickle, which can contain code
        hf out --onnx --max-positions 99 -> --max-positions must .*\\(16\\), got 99
        hf out --onnx --head topic -> 'topic'
        hf out --onnx --dictionary mlm/dict.txt -> hf has its own tokenizer and labels
        """,
    ),
]

LINEARIZE = section(
    "linearize",
    "options and files",
    "",
    """
    bert out -> --text
    bert out --text nowhere -> --text must be a folder.*nowhere
    bert out --text bad/a:b -> --text must be a path without ':'.*bad/a:b
    bert out --text data -> must be that of the teacher
    rob/model.pt out --text data -> must be that of the teacher
    nowhere.pt out --text data -> nowhere.pt is not a file
    bad/half.pt out --text data -> half.pt is truncated
    bad/code.pt out --text data -> code.pt contains code
    bad/folder out --text data -> bad/folder
    bert bad/full --text data -> bad/full must be a new or empty folder
    bert out --text data --batch-size 0 -> batch_size must be at least 1, got 0
    bert out --text data --max-update -1 -> max_update must .*-1
    bert out --text data --lr 0 -> lr must be a finite number above 0
    bert out --text data --lr nan -> lr must .*nan
    bert out --text data --short-seq-prob 1 -> short_seq_prob must .*1
    bert out --text data --short-seq-prob nan -> short_seq_prob must .*nan
    bert out --text data --seed -1 -> seed must .*-1
    bert out --text data --max-update 0 --lr 1e-4 -> --lr has no effect with --max-update 0
    bert out --text data --max-update 0 --device cpu -> --device has no effect with --max-update 0
    bert out --text data --tokens-per-sample 1 -> tokens_per_sample must .*1
    bert out --text data --projected-dim 99 -> projected_dim .*99
    bert out --text data --max-positions 0 -> max_positions .*0
    bert out --text data --max-positions 999 -> max_positions must be at most the .*999
    bert out --text data --device tpu -> 'tpu'
    """,
)

ANALYZE = [
    *section(
        "analyze spectrum",
        "options, text and checkpoints",
        "",
        """
        rob/model.pt --source text.txt -> --out
        rob/model.pt --out out -> --source
        nowhere.pt --source text.txt --out out -> nowhere.pt is not a fairseq checkpoint
        bad/code.pt --source text.txt --out out -> code.pt contains code
        bad/half.pt --source text.txt --out out -> half.pt is truncated
        bad/folder --source text.txt --out out -> bad/folder
        bad/hf-pickle --source text.txt --out out -> hf-pickle.*pickle
        mlm/model.pt --source nowhere.txt --out out -> nowhere.txt
        mlm/model.pt --source text.txt --out bad/full -> bad/full
        mlm/model.pt --source text.txt --out text.txt -> text.txt
        mlm/model.pt --source text.txt --out out --suggest-k 1.5 -> --suggest-k must .*1.5
        mlm/model.pt --source text.txt --out out --suggest-k nan -> --suggest-k must .*nan
        mlm/model.pt --source text.txt --out out --energy squares -> --energy needs --suggest-k
        mlm/model.pt --source text.txt --out out --tokens-per-sample 17 -> 17
        mlm/model.pt --source text.txt --out out --tokens-per-sample 0 -> 0
        mlm/model.pt --source text.txt --out out --num-sentences 0 -> num.sentences .*0
        mlm/model.pt --source text.txt --out out --batch-size 0 -> batch.size .*0
        mlm/model.pt --source text.txt --out out --num-checked -1 -> num.checked .*-1
        mlm/model.pt --source text.txt --out out --index 0 -> index .*0
        mlm/model.pt --source text.txt --out out --index 999 -> index .*999
        mlm/model.pt --source text.txt --out out --device tpu -> device must .*'tpu'
        mlm/model.pt --source text.txt --out out --dictionary bad/dict.txt -> dict.txt
        mlm/model.pt --source text.txt --out out --sentencepiece-model bad/noise.model -> noise.model
        """,
    ),
    *section(
        "analyze figure",
        "folders and output file",
        "",
        """
        nowhere --out f.png -> nowhere
        bad/folder --out f.png -> spectrum.npz
        bad/folder --out text.txt -> text.txt already exists
        bad/folder --out f.pdf -> f.pdf|spectrum.npz
        -> the following arguments are required
        """,
    ),
    *section(
        "analyze attention",
        "options",
        "mlm/model.pt --source text.txt --out out",
        """
        -> --sentence
        --sentence 0 -> sentence .*0
        --sentence -2 -> sentence .*-2
        --sentence 99999 -> 99,?999
        --sentence first -> 'first'
        --sentence 1 --tokens-per-sample 99 -> 99
        """,
    ),
]

BENCHMARK = [
    *section(
        "benchmark inference",
        "options",
        "out",
        """
        --lengths 64 --projected-dim 128 -> projected-dim.*128
        --lengths 64,256 --projected-dim 128 -> n = 64
        --lengths 64,256 --projected-dim 8,512 -> projected-dim.*512
        --lengths many -> 'many'
        --lengths 64,64 -> 64 twice
        --lengths 64 --projected-dim 8 --rounds 0 -> rounds .*0
        --lengths 64 --projected-dim 8 --warmup-rounds -1 -> warm_up .*-1
        --lengths 64 --projected-dim 8 --max-memory-gib nan -> usable_gib .*nan
        --lengths 64 --projected-dim 8 --gpu-memory-gib inf -> memory_gib .*inf
        --lengths 64 --projected-dim 8 --encoder-layers 0 -> layers .*0
        --lengths 64 --projected-dim 8 --threads 0 -> --threads .*0
        --encoder-embed-dim 100 -> embed_dim .*100
        --encoder-embed-dim 0 -> embed_dim .*0
        --projected-dim none -> 'none'
        --projected-dim 0 -> '0'
        --max-tokens 0 -> '0'
        --dtype fp8 -> 'fp8'
        --whole-models --projected-dim 8,16 -> --projected-dim.*8,16
        --whole-models --lengths 512 --projected-dim 200 -> projected_dim .*200
        --whole-models --max-memory-gib 4 -> --max-memory-gib
        --whole-models --gpu-memory-gib 4 -> --gpu-memory-gib
        """,
    ),
    *section(
        "benchmark scaling",
        "options",
        "out",
        """
        --max-memory-gib -1 -> usable_gib .*-1.0
        --models transformer -> transformer
        --models linformer --max-memory-gib 4 -> --max-memory-gib
        --lengths 48,64 -> max_tokens .*64
        --lengths none -> 'none'
        --only pertoken --lengths 512 -> lengths .*512
        --only pertoken --models linformer -> --models
        --only everything -> 'everything'
        --projected-dim 0 -> .*0
        """,
    ),
    *section(
        "benchmark training",
        "options",
        "out",
        """
        --models gpt -> gpt
        --models ours, -> 'ours,'
        --models ours,ours --only process -> ours twice
        --models ours-modules --max-update 9 -> --max-update
        --only steps --lengths 96 --projected-dim 24 -> projected_dim .*24
        --only steps --fairseq-options=--compile -> --fairseq-options
        --only memory --warmup-rounds 0 -> --warmup-rounds
        --only memory --rounds 2 -> --rounds
        --only process --lengths none -> --lengths .*process
        --only process --finetuning-lengths none -> --finetuning-lengths
        --only process --models linformer -> linformer
        --only process --max-update 2 --warmup-updates 2 -> warm_up_updates .*2
        --only process --projected-dim 200 --lengths 512 -> projected_dim .*200
        --only process --models roberta --fairseq-options=--compile -> --compile
        --only shares --fairseq-options=--max-update=3 -> --max-update
        --lengths none --only process -> --lengths
        --lengths none --finetuning-lengths none -> --lengths
        --lengths none --max-update 9 -> --max-update
        --threads 0 -> --threads.*0
        """,
    ),
    *section(
        "benchmark finetuning",
        "options and data",
        "out",
        """
        -> --data
        --data nowhere -> --data.*nowhere
        --data bad/folder -> --data.*bad/folder
        --data glue --batch-size 0 -> '0'
        """,
    ),
    *section(
        "benchmark report", "folders", "", "bad/folder -> bad/folder has no successful measurement\nnowhere -> nowhere"
    ),
]

REPRODUCE = section(
    "reproduce",
    "experiments, options and inputs",
    "--results results",
    """
    figure-9 -> 'figure-9'.*figure-3.*table-2
    -> NAME
    figure-3 --scale huge -> --scale huge.*smoke, cpu, encoder, gpu, paper
    figure-3 -> --data
    figure-3 --part e -> --part 'e'.*a, b, c, d
    figure-3 --data nowhere -> --data nowhere.*dict.txt
    figure-3 --data 'two<newline>lines' -> --data two lines
    figure-3 --data two:folders -> --data .*':'.*two:folders
    figure-3 --data '${x}' -> --data .*'\\$\\{'.*\\$\\{x\\}
    parameters --data nowhere -> --data
    figure-3 --tasks nowhere -> --data
    parameters --tasks nowhere -> --tasks
    table-2 --data nowhere -> table-2 needs --tasks
    theorem-1 --scale gpu -> gpu.*smoke, cpu
    figure-3 --scale paper -> --data
    table-2 --scale paper -> --tasks
    table-2 --scale paper --data nowhere -> --tasks
    table-2 --scale paper --tasks nowhere -> n512-roberta must be a finished pretraining
    figure-3 --data data --results nowhere -> --results.* nowhere
    figure-3 --data data --runs text.txt -> cannot write to text.txt
    figure-1 --scale smoke --data data --encoder nowhere -> needs --source with --encoder
    list --data '' -> --data: must not be empty
    """,
)

OTHERS = [
    *section(
        "report",
        "folders and files",
        "",
        """
        --results nowhere -> nowhere
        --results '' -> --results: must not be empty
        --results text.txt -> text.txt
        --results results --nothing -> --nothing
        """,
    ),
    *section("path", "folders", "", "-> FOLDER|folder\nelsewhere -> 'elsewhere'.*plugin"),
    *section("", "commands", "", "-> COMMAND\nevaluat -> 'evaluat'\n--nothing -> COMMAND|--nothing"),
]

CASES: list[Case] = [
    *PREPARE,
    *PLAN,
    *SUBMIT,
    *FINETUNE,
    *EVALUATE,
    *CONVERT,
    *LINEARIZE,
    *ANALYZE,
    *BENCHMARK,
    *REPRODUCE,
    *OTHERS,
]
