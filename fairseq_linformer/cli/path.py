"""Print the folder of the plugin, configurations or scripts. fairseq's own commands take them as --user-dir and
--config-dir.

    fairseq-linformer path plugin
"""

import argparse

from ..resources import CONFIGS, PLUGIN, SCRIPTS

FOLDERS = {"plugin": PLUGIN, "configs": CONFIGS, "scripts": SCRIPTS}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", choices=FOLDERS, help="plugin for --user-dir, configs for --config-dir, or scripts")


def run(options: argparse.Namespace) -> str:
    return str(FOLDERS[options.folder])
