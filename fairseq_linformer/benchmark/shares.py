"""Which share of an update of ``fairseq-train`` each of its parts takes: data, forward, criterion, backward, clipping,
optimizer, logging, and the rest."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Dict, List

from .process import Process, run
from .stopwatch import PARTS

STOPWATCH = Path(__file__).with_name("stopwatch.py")
REST = "rest"


@dataclass(frozen=True)
class Shares(Process):
    """Processes of one shape with a stopwatch in them.

    Raises:
        ValueError: as ``Process``.
    """

    kind: ClassVar[str] = "shares"

    def measure(self) -> Dict[str, Any]:
        """``seconds`` of each part, of the rest and of the whole, in each update that counts."""
        seconds: Dict[str, Dict[str, List[float]]] = {name: {part: [] for part in (*PARTS, REST, "whole")} for name in self.models}
        for name, folder in self.turns():
            for update in self._updates(name, folder)[self.warm_up_updates :]:
                update[REST] = update["whole"] - sum(update[part] for part in PARTS)
                for part, taken in update.items():
                    seconds[name][part].append(taken)
        return {"seconds": seconds}

    def _updates(self, name: str, folder: str) -> List[Dict[str, float]]:
        with TemporaryDirectory() as place:
            out = Path(place, "updates.json")
            run([sys.executable, "-P", str(STOPWATCH), str(out), *self.arguments(name, folder)])
            updates = json.loads(out.read_text())
        if len(updates) <= self.warm_up_updates:
            raise ValueError(f"{name}: {len(updates)} updates were timed; more than {self.warm_up_updates} are needed")
        return updates
