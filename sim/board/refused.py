"""Requests that the virtual board refuses. `services` turns the error into a gRPC status, which the client raises."""


class RefusedError(Exception):
    """A request that fails. code: the name of a gRPC status."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def missing(message: str) -> RefusedError:
    """For a request of something that is not there."""
    return RefusedError("NOT_FOUND", message)


def invalid(message: str) -> RefusedError:
    """For a request that is wrong on any board."""
    return RefusedError("INVALID_ARGUMENT", message)


def exhausted(message: str) -> RefusedError:
    """For a request for which there is no room."""
    return RefusedError("RESOURCE_EXHAUSTED", message)


def early(message: str) -> RefusedError:
    """For a request before which something else must happen."""
    return RefusedError("FAILED_PRECONDITION", message)
