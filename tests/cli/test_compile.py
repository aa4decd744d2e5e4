"""What `cnna compile` and `convert` say of the pieces on the CPU."""

import pytest

from cnna.cli.compile import say_cpu
from cnna.spec.manifest import ACCELERATOR, CPU

BODY, MACS = [ACCELERATOR, CPU], 1_000_000


@pytest.mark.parametrize(
    ("pieces", "macs", "cpu_macs", "said"),
    [
        (BODY, MACS, 32, None),
        (BODY, MACS, 0, None),
        (BODY, MACS, MACS // 100, "1.0% of the multiply-accumulates run on the CPU: 10,000 MACs an image"),
        ([CPU], 0, 32, "all of the model runs on the CPU: 32 MACs an image"),
        ([CPU], 0, 0, "all of the model runs on the CPU; cnna explain says why"),
    ],
)
def test_standard_error_names_a_share_that_counts(
    pieces: list[str], macs: int, cpu_macs: int, said: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """A warning of 0.0 % would send everyone to look for a fault, such as behind a batch norm of an embedding."""
    known = {"cpu_operators": ["Conv"], "cpu_seconds": 1e-3, "numpy_suffices": False}
    say_cpu({**known, "pieces": pieces, "macs": macs, "cpu_macs": cpu_macs}, [])
    err = capsys.readouterr().err
    assert (said in err) if said else not err
