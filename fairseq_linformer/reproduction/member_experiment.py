"""Experiments on an encoder with a record per member, so that machines that share a ledger can split the work."""

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, Generic, TypeVar

from .encoder_models import check_encoder
from .experiment import Experiment, check_same_plan, describe_reuse
from .inputs import Inputs
from .records import Record

M = TypeVar("M", bound=Hashable)


class MemberExperiment(Experiment, Generic[M]):
    """An experiment on an encoder that trains its members in turn, and measures each when its runs are finished."""

    resumes_from_records = True

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
    def are_finished(self, scale: str, member: M, inputs: Inputs) -> list[bool]:
        """Whether each run of a member is finished here."""

    @abstractmethod
    def measure_members(
        self, scale: str, inputs: Inputs, command: str, members: Sequence[M], again: bool
    ) -> list[Record]:
        """Run what is not finished of some members, and return their records.

        Args:
            again: score finished runs again.

        Raises:
            Unfinished: the time budget is spent; its records are those of finished members.
            ValueError: an input is missing or does not fit, or a training failed.
        """

    def member(self, record: Record) -> M:
        """
        Raises:
            ValueError: the record is of a member that the experiment no longer has.
        """
        for member in self.members(record.scale):
            if self.identifier(record.scale, member) == record.identifier:
                return member
        raise ValueError(
            f"{record.identifier} has a model or task that {self.name} no longer has at scale {record.scale}; check "
            f"out its commit, {record.commit}, or use another --results"
        )

    def check_same(self, record: Record, inputs: Inputs) -> None:
        check_encoder(record, inputs)
        check_same_plan(record, self.configuration(record.scale, self.member(record), inputs))

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        recorded = {record.identifier for record in inputs.recorded}
        unrecorded = [each for each in self.members(scale) if self.identifier(scale, each) not in recorded]
        return self.measure_members(scale, inputs, command, unrecorded, again=False) if unrecorded else []

    def measure_again(self, record: Record, inputs: Inputs) -> tuple[str, list[Record]]:
        self.check(record.scale, inputs)
        self.check_same(record, inputs)
        member = self.member(record)
        done = self.are_finished(record.scale, member, inputs)
        records = self.measure_members(record.scale, inputs, record.command, [member], again=True)
        return describe_reuse(done), records
