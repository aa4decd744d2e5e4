"""An MLServer runtime that is answered by cnna's engine; `model-settings.json` beside it names the model and its boards.

pip install -r examples/mlserver_runtime/requirements.txt && pip install CLONE
mlserver start examples/mlserver_runtime

The engine makes the batches and starts a process for each board, so MLServer's own workers and batches stay off.
"""

import asyncio
from typing import Any

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.errors import MLServerError
from mlserver.types import InferenceRequest, InferenceResponse, MetadataTensor
from numpy.typing import NDArray

from cnna.serve import Engine
from cnna.serve.models.signature import Tensor
from cnna.serve.protocol.described import signature_of
from cnna.serve.protocol.tensors import name_of
from cnna.spec.errors import BusyError, CnnaError, LateError, UnknownError, UserError

STATUS = ((UnknownError, 404), (UserError, 400), (BusyError, 503), (LateError, 504))


class CnnaRuntime(MLModel):
    """One model of a repository, or of a .cnna. Of its `parameters`, `uri` names that, and `extra` has `boards` and `model`."""

    async def load(self) -> bool:
        """Starts the boards and loads the model. MLServerError: it cannot be served; the message says why."""
        given = self.settings.parameters
        if given is None or not given.uri:
            raise MLServerError(f"model {self.name}: parameters.uri is missing; name a .cnna or a repository of cnna", 422)
        extra = given.extra or {}
        boards = {"boards": extra["boards"]} if "boards" in extra else {}
        try:
            self.engine = await asyncio.to_thread(Engine, given.uri, **boards)
        except CnnaError as error:
            raise MLServerError(f"model {self.name}: {error}", 422) from None
        core = self.engine.core
        self.model = str(extra.get("model", core.repository.models()[0] if core.repository.models() else self.name))
        try:
            signature = self.engine.of_loop(lambda: signature_of(core, self.model, None))
        except CnnaError as error:
            await self.unload()
            raise MLServerError(f"model {self.name}: {error}", 422) from None
        self.inputs = [described(tensor) for tensor in signature.inputs]
        self.outputs = [described(tensor) for tensor in signature.outputs]
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """The engine's answer; requests that are open at once share its batches."""
        inputs = {one.name: decoded(one) for one in payload.inputs}
        wanted = [one.name for one in payload.outputs or []]
        try:
            future = self.engine.submit(self.model, inputs, request_id=payload.id or "", outputs=wanted)
            result = await asyncio.wrap_future(future)
        except CnnaError as error:
            raise MLServerError(str(error), next((status for kind, status in STATUS if isinstance(error, kind)), 500)) from None
        outputs = [NumpyCodec.encode_output(name, array) for name, array in result.outputs.items() if not wanted or name in wanted]
        return InferenceResponse(id=payload.id, model_name=self.name, model_version=result.version, outputs=outputs)

    async def unload(self) -> bool:
        """Ends the engine and its workers."""
        await asyncio.to_thread(self.engine.close)
        return True


def decoded(one: Any) -> NDArray[Any]:
    """An input as an array. MLServerError: its data do not fit its type or shape."""
    try:
        found: NDArray[Any] = NumpyCodec.decode_input(one)
    except (ValueError, OverflowError, TypeError):
        raise MLServerError(f"input {one.name}: its data are no {one.datatype.value} {list(one.shape)}") from None
    return found


def described(tensor: Tensor) -> MetadataTensor:
    """A tensor as MLServer's metadata have it."""
    return MetadataTensor(name=tensor.name, datatype=name_of(tensor.dtype), shape=tensor.served_shape)
