"""numpy, loaded when it is first used: a floor is ready before anybody searches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Numbers = NDArray[np.int64]
    Bits = NDArray[np.uint8]
else:
    Floats = Numbers = Bits = Any

    class _Numpy:
        def __getattr__(self, name: str) -> Any:
            import numpy  # noqa: PLC0415

            found = getattr(numpy, name)
            setattr(self, name, found)
            return found

    np = _Numpy()

__all__ = ["Bits", "Floats", "Numbers", "np"]
