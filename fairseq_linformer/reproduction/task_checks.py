"""Checks of prepared tasks, before anything is trained."""

from pathlib import Path

from ..corpus.tokenizer_files import DICTIONARY
from ..evaluation.encoded_rows import is_prepared
from ..finetuning import data
from ..models.dictionaries import describe_difference, read_dictionary
from ..task_data.tasks import TASKS
from .text import find_shards


def check_task(name: str, n: int, tasks, text) -> None:
    """Check a task before anything is trained.

    Raises:
        ValueError: ``tasks`` lacks the task, its inputs are too long for a model of n, or its dictionary is not that
            of ``text``.
    """
    dictionary, folder = find_shards(text)[0] / DICTIONARY, data.task_folder(tasks, name, n)
    if not is_prepared(folder):
        raise ValueError(f"--tasks {tasks} has no {folder.name}; `fairseq-linformer prepare {name}` writes it")
    try:
        data.check_folder(TASKS[name], folder, n)
    except ValueError as error:
        raise ValueError(f"{error}; a model of n = {n} reads {Path(tasks) / f'{name}-n{n}'} if it exists") from None
    path = folder / "input0" / DICTIONARY
    if difference := describe_difference(read_dictionary(dictionary), read_dictionary(path)):
        raise ValueError(
            f"{path} must equal the dictionary of --data, {dictionary}; {difference}; "
            f"prepare {name} again with the tokenizer of the text"
        )
