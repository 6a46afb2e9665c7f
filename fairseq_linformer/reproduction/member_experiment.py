"""Experiments on an encoder with a record per member."""

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, Generic, TypeVar

from .experiment import Experiment
from .inputs import Inputs
from .records import Record

M = TypeVar("M", bound=Hashable)


class MemberExperiment(Experiment, Generic[M]):
    """An experiment on an encoder that trains its members in turn, and measures each when its runs are finished."""

    @abstractmethod
    def members(self, scale: str) -> Sequence[M]:
        """All members, in the order in which they run."""

    @abstractmethod
    def identifier(self, scale: str, member: M) -> str:
        """The identifier of a member's record."""

    @abstractmethod
    def configuration(self, scale: str, member: M, inputs: Inputs) -> dict[str, Any]:
        """The plan stored in a record: only that of its member, so that others can be added later."""

    @abstractmethod
    def measure_members(self, scale: str, inputs: Inputs, command: str, members: Sequence[M]) -> list[Record]:
        """Run what is not finished of some members, and return their records.

        Raises:
            Unfinished: the time budget is spent; its records are those of finished members.
            ValueError: an input is missing or does not fit, or a training failed.
        """

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        return self.measure_members(scale, inputs, command, self.members(scale))
