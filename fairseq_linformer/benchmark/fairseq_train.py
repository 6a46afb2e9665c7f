"""``fairseq-train``, but for that it takes ``--bf16`` for a precision and not for a TPU.

    python -P fairseq_train.py ARGUMENTS...

It is run as a file, and imports fairseq only: the authors' plugin registers the same names as this one.
"""

from unittest import mock

import fairseq_cli.train


def cli_main() -> None:
    """With the arguments of this process."""
    as_configuration = fairseq_cli.train.convert_namespace_to_omegaconf

    def without_tpu(args):
        args.tpu = False  # fairseq's parser has set it, with --bf16
        return as_configuration(args)

    with mock.patch.object(fairseq_cli.train, "convert_namespace_to_omegaconf", without_tpu):
        fairseq_cli.train.cli_main()


if __name__ == "__main__":
    cli_main()
