"""Requests that the virtual board refuses: `services` turns the error into a gRPC status, and the client raises that."""


class RefusedError(Exception):
    """A request that fails; `code` is the name of a gRPC status."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def missing(message: str) -> RefusedError:
    """What was asked for is not there."""
    return RefusedError("NOT_FOUND", message)


def invalid(message: str) -> RefusedError:
    """The request makes no sense, here or anywhere."""
    return RefusedError("INVALID_ARGUMENT", message)


def exhausted(message: str) -> RefusedError:
    """There is no room."""
    return RefusedError("RESOURCE_EXHAUSTED", message)


def early(message: str) -> RefusedError:
    """Something else must come first."""
    return RefusedError("FAILED_PRECONDITION", message)
