"""A model of Triton's Python backend that is answered by cnna's engine: `repository.py` puts it beside each version.

Requests are given to the engine at once, and `execute` returns before they are answered. So the engine sees all open requests,
makes its own batches of them and keeps all boards of the instance busy. Responses are sent by `InferenceResponseSender`, which
models in the default mode may use from Triton 24.06 on.
"""

import json
import re
import shutil
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import triton_python_backend_utils as pb_utils

from cnna.serve import Engine
from cnna.spec.errors import BusyError, LateError, UnknownError, UserError

CODES = ((UnknownError, "NOT_FOUND"), (UserError, "INVALID_ARG"), (BusyError, "UNAVAILABLE"), (LateError, "UNAVAILABLE"))


class TritonPythonModel:
    """One instance: an engine with this instance's share of the boards."""

    def initialize(self, args: dict[str, str]) -> None:
        """Starts the boards and loads the version. TritonModelException: it cannot be served; the message says why."""
        if not sys.executable:  # the stub embeds Python; the engine starts its workers with this program
            sys.executable = shutil.which("python3") or ""
        config = json.loads(args["model_config"])
        folder = Path(args["model_repository"]) / args["model_version"] / "repository"
        try:
            self.engine = Engine(folder, boards=shared(config, args["model_instance_name"]))
        except UserError as error:
            raise pb_utils.TritonModelException(str(error)) from None
        (self._model,) = self.engine.core.repository.models()
        self._types = {one["name"]: pb_utils.triton_string_to_numpy(one["data_type"]) for one in config["output"]}
        self._sending = ThreadPoolExecutor(1, "cnna-responses")  # `send` blocks, and the engine's loop must not
        if why := self._why_not_ready():
            self.finalize()
            raise pb_utils.TritonModelException(why)

    def execute(self, requests: list[Any]) -> None:
        """Gives all requests to the engine. Their arrays are copied, since Triton takes the memory back when this returns."""
        for request in requests:
            inputs = {tensor.name(): tensor.as_numpy().copy() for tensor in request.inputs()}
            more = {"request_id": request.request_id(), "timeout_us": request.timeout()}
            future = self.engine.submit(self._model, inputs, **more)
            future.add_done_callback(partial(self._answered, request.get_response_sender()))

    def finalize(self) -> None:
        """Ends the engine. What is still open is answered with an error."""
        self.engine.close()
        self._sending.shutdown()

    def is_ready(self) -> bool:
        """For Triton's health route: whether some board can answer."""
        return self._why_not_ready() is None

    def _why_not_ready(self) -> str | None:
        return self.engine.of_loop(self.engine.core.why_not_ready)

    def _answered(self, sender: Any, future: "Future[Any]") -> None:
        self._sending.submit(self._send, sender, future)

    def _send(self, sender: Any, future: "Future[Any]") -> None:
        sender.send(self._response(future), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _response(self, future: "Future[Any]") -> Any:
        """One request's outputs, or its error with the nearest of Triton's codes."""
        error = future.exception()
        if error is not None:
            code = next((code for kind, code in CODES if isinstance(error, kind)), "INTERNAL")
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error), getattr(pb_utils.TritonError, code)))
        outputs = future.result().outputs.items()
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, array.astype(self._types[name])) for name, array in outputs])


def shared(config: dict[str, Any], instance: str) -> list[str]:
    """The boards of an instance: every n-th of the parameter `boards`, since a board belongs to one process.

    Triton ends the names of instances in their numbers. TritonModelException: an instance would have no board.
    """
    boards = config["parameters"]["boards"]["string_value"].split()
    count = sum(int(group["count"]) for group in config["instance_group"])
    number = re.search(r"(\d+)$", instance)
    if count > len(boards) or (count > 1 and number is None):
        many = f"{count} instances, but {len(boards)} boards"
        raise pb_utils.TritonModelException(
            f"{config['name']}: {many}; name a board for each instance, or lower instance_group's count"
        )
    return boards[int(number[1]) :: count] if number is not None and count > 1 else boards
