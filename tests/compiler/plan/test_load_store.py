"""Loads and stores use the ports that there are."""

import pytest

from cnna.compiler.cost.cost import moving_clocks
from cnna.compiler.plan.load_store import joined_run
from cnna.spec.config import preset


@pytest.mark.parametrize(
    ("words", "blocks"), [(28 * 112, 1), (29 * 112, 1), (56 * 56, 64), (28 * 28, 8), (7 * 7, 64), (1, 64), (16, 1)]
)
def test_runs_keep_every_port_busy(words, blocks):
    """A block whose words lie together is moved as quickly as its beats allow, or the ports would take turns at a bank."""
    config = preset("zcu102")
    run = joined_run(words, blocks, config)
    fields = {"run": run, "runs": words // run, "fm_run": run, "blocks": blocks, "fm_block": words}
    assert words % run == 0
    assert moving_clocks(fields, config) == max(words * blocks // config.ports, run)
