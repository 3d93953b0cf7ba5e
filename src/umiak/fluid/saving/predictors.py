"""`fluid.core.AnalysisConfig`, `create_paddle_predictor` and `PaddleTensor`, on `paddle.inference`. A program.

A model that `save_inference_model` has written is found by the names of 1.8; any other one is given to Paddle as it is.
"""

from __future__ import annotations

import enum
import os
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle import inference

from umiak.fluid.record.problems import bad
from umiak.fluid.record.remarks import left_out
from umiak.fluid.record.sites import user_line
from umiak.fluid.saving import record_text
from umiak.fluid.saving.exporting import NUMBERS, PROGRAM

if TYPE_CHECKING:
    from umiak.fluid.arguments import Folder, Outputs, Shape, Value


class PaddleDType(enum.Enum):
    """`fluid.core.PaddleDType`."""

    FLOAT32, INT64, INT32, UINT8 = "float32", "int64", "int32", "uint8"


class PaddleBuf:
    """`fluid.core.PaddleBuf`: values one after another."""

    def __init__(self, values: Value = ()) -> None:
        self.reset(values)

    def reset(self, values: Value) -> None:
        """Other values."""
        self.values = np.asarray(values).reshape(-1)

    def tolist(self, dtype: str | None = None) -> Outputs:
        """The values as a list, in the type if one is given."""
        return list((self.values if dtype is None else self.values.view(dtype)).tolist())

    def float_data(self) -> Outputs:
        return self.values.astype(np.float32).tolist()  # type: ignore[no-any-return]

    def int64_data(self) -> Outputs:
        return self.values.astype(np.int64).tolist()  # type: ignore[no-any-return]

    def int32_data(self) -> Outputs:
        return self.values.astype(np.int32).tolist()  # type: ignore[no-any-return]

    def length(self) -> int:
        """In bytes."""
        return int(self.values.nbytes)

    def empty(self) -> bool:
        return not self.length()


class PaddleTensor:
    """`fluid.core.PaddleTensor`: what a predictor is given, and returns."""

    def __init__(self, data: Value = None, name: str = "", lod: Value = (), copy: bool = True) -> None:
        self.name = name
        self.lod = [list(level) for level in lod]
        array = (np.array if copy else np.asarray)(() if data is None else data)
        self.data: Any = PaddleBuf(array)
        self.shape: Shape = list(array.shape)
        self.dtype: Any = next((each for each in PaddleDType if each.value == str(array.dtype)), None)

    def as_ndarray(self) -> Any:
        """An array of its shape and type."""
        values = self.data.values if isinstance(self.data, PaddleBuf) else np.asarray(self.data)
        dtype = self.dtype.value if isinstance(self.dtype, PaddleDType) else values.dtype
        return values.astype(dtype).reshape(self.shape)


class AnalysisConfig:
    """`fluid.core.AnalysisConfig`: a model, and how it is run. Everything but its files is Paddle's `inference.Config`."""

    def __init__(self, model: Folder = None, params_file: Folder = None) -> None:
        self._config = inference.Config()
        self._model: tuple[Folder, Folder] = ("", "")
        self._use_feed_fetch = True
        if model is not None:
            self.set_model(model, params_file)

    def set_model(self, model: Folder, params_file: Folder = None) -> None:
        """A directory with a file for each variable, or a program's file and one with all of them."""
        self._model = (os.fspath(model), os.fspath(params_file) if params_file else "")
        self._config.set_model(*_files(*self._model))

    def set_prog_file(self, path: Folder) -> None:
        """The program's file."""
        self._model = (os.fspath(path), self._model[1])

    def set_params_file(self, path: Folder) -> None:
        """The file with all variables."""
        self.set_model(self._model[0], path)

    def model_dir(self) -> str:
        return "" if self._model[1] else str(self._model[0])

    def prog_file(self) -> str:
        return str(self._model[0]) if self._model[1] else ""

    def params_file(self) -> str:
        return str(self._model[1])

    def enable_use_gpu(self, memory_pool_init_size_mb: int, device_id: int = 0) -> None:
        """Run on a GPU; on the CPU, with a warning, where this Paddle has no CUDA."""
        if not paddle.is_compiled_with_cuda():
            warnings.warn("enable_use_gpu: this Paddle is built without CUDA, the model runs on the CPU", stacklevel=2)
            return
        self._config.enable_use_gpu(memory_pool_init_size_mb, device_id)

    def enable_memory_optim(self, x: bool = True) -> None:
        """No effect, which is said: Paddle 3.3 fails with it on models in its newer form."""
        left_out("core.AnalysisConfig.enable_memory_optim", x=x)

    def switch_use_feed_fetch_ops(self, x: int = True) -> None:
        """Accepted: a predictor here takes both `run` and `zero_copy_run`."""
        self._use_feed_fetch = bool(x)

    def use_feed_fetch_ops_enabled(self) -> bool:
        return self._use_feed_fetch

    def switch_specify_input_names(self, x: bool = True) -> None:
        """Accepted: tensors with names are taken by them, others in their order."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._config, name)


def _files(model: str, params_file: str) -> tuple[str, str]:
    """What Paddle loads."""
    program = model if params_file or not os.path.isdir(model) else os.path.join(model, "__model__")
    if os.path.exists(program + PROGRAM):
        numbers = next((each for each in (program + NUMBERS, params_file) if each and os.path.exists(each)), "")
        return program + PROGRAM, numbers if numbers and os.path.getsize(numbers) else ""  # a model without parameters
    try:
        with open(program, encoding="utf-8") as file:
            reason = record_text.why_not_exported(file.read())
    except OSError as error:
        raise bad("UM-FLUID-023", f"no model: {program}", why=error.strerror, where=user_line()) from None
    except ValueError:  # not text: Paddle's own
        return program, params_file
    if reason is None:
        return program, params_file
    what = f"this model was not written for paddle.inference: {program}"
    why = reason or "export_for_deployment was False, or program_only True"
    raise bad("UM-FLUID-023", what, "fluid.io.load_inference_model reads it", why=why, where=user_line())


class PaddlePredictor:
    """`fluid.core.PaddlePredictor`."""

    def __init__(self, predictor: Any) -> None:
        self._predictor = predictor

    def run(self, inputs: list[PaddleTensor]) -> list[PaddleTensor]:
        """The outputs for these inputs: by their names, or in their order."""
        names = self._predictor.get_input_names()
        if len(inputs) != len(names):
            what = f"predictor.run: expected {len(names)} tensors ({', '.join(names)}), got {len(inputs)}"
            raise bad("UM-FLUID-006", what, where=user_line())
        by_name = all(each.name in names for each in inputs)
        for name, each in zip(names, inputs, strict=True):
            handle = self._predictor.get_input_handle(each.name if by_name else name)
            handle.copy_from_cpu(np.ascontiguousarray(each.as_ndarray()))
        self._predictor.run()
        outputs = self._predictor.get_output_names()
        return [PaddleTensor(self._predictor.get_output_handle(name).copy_to_cpu(), name) for name in outputs]

    def zero_copy_run(self) -> None:
        """Run with what the input tensors hold."""
        self._predictor.run()

    def get_input_names(self) -> list[str]:
        return list(self._predictor.get_input_names())

    def get_output_names(self) -> list[str]:
        return list(self._predictor.get_output_names())

    def get_input_tensor(self, name: str) -> Any:
        """Paddle's tensor: `copy_from_cpu`, `reshape`, `set_lod`."""
        return self._predictor.get_input_handle(name)

    def get_output_tensor(self, name: str) -> Any:
        """Paddle's tensor: `copy_to_cpu`, `shape`, `lod`."""
        return self._predictor.get_output_handle(name)

    def clone(self) -> PaddlePredictor:
        """Another one with the same parameters, for another thread."""
        return PaddlePredictor(self._predictor.clone())

    def clear_intermediate_tensor(self) -> None:
        self._predictor.clear_intermediate_tensor()

    def try_shrink_memory(self) -> None:
        self._predictor.try_shrink_memory()


def create_paddle_predictor(config: AnalysisConfig) -> PaddlePredictor:
    """A predictor of a model."""
    if not isinstance(config, AnalysisConfig):
        what = f"create_paddle_predictor: expected an AnalysisConfig, got {config!r}"
        raise bad("UM-FLUID-001", what, where=user_line())
    return PaddlePredictor(inference.create_predictor(config._config))  # noqa: SLF001 - two halves of one face
