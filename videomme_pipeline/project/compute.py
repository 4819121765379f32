"""The compute time that work on videos takes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeTime:
    """The CPU time of decoding and encoding, and the wall-clock time of all nodes together.

    A node is this machine or one worker of a cluster.
    """

    cpu_seconds: float = 0.0
    node_seconds: float = 0.0

    def __add__(self, other: "ComputeTime") -> "ComputeTime":
        return ComputeTime(
            cpu_seconds=self.cpu_seconds + other.cpu_seconds,
            node_seconds=self.node_seconds + other.node_seconds,
        )

    def __sub__(self, other: "ComputeTime") -> "ComputeTime":
        return ComputeTime(
            cpu_seconds=self.cpu_seconds - other.cpu_seconds,
            node_seconds=self.node_seconds - other.node_seconds,
        )

    @property
    def node_hours(self) -> float:
        return self.node_seconds / 3600
