"""Models damaged at random, by the hundred: each runs to its answer or is refused in one line."""

from cnna.spec.errors import ModelError

from .mutants import mutated
from .nets import NETS, answer

MUTANTS = 150


def test_mutants_run_or_are_refused() -> None:
    """Anything else than an answer or one line is a gap in the checks."""
    whole, answered = {name: net() for name, net in NETS.items()}, 0
    for seed in range(MUTANTS):
        kind = list(NETS)[seed % len(NETS)]
        model, damage = mutated(whole[kind], seed)
        line = ""
        try:
            answered += bool(answer(kind, model))
        except ModelError as error:
            line = str(error)
        except Exception as error:
            raise AssertionError(f"{kind}, seed {seed}, {damage}: {type(error).__name__}: {error}") from error
        assert not line or line.startswith("bad.onnx"), f"{kind}, seed {seed}, {damage}: {line}"
    assert MUTANTS // 20 < answered < MUTANTS // 2, "mutants are to be damaged, but not all of them beyond use"
