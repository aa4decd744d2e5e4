"""What a line says of names that do not fit: the missing ones, the unknown ones, and what they may stand for."""

from cnna.spec.names import LETTERS, MOST, differences, in_line, nearest


def test_equal_names_say_nothing_whatever_their_order() -> None:
    """A request with its inputs in another order would be refused."""
    assert differences(["k", "x"], ["x", "k"]) == ""


def test_each_kind_of_difference_is_named() -> None:
    """A client would have to find by itself which of thirty inputs it forgot."""
    assert differences(["x"], ["x", "k"]) == "has inputs x, k; missing: k"
    assert differences(["x", "z"], ["x"]) == "has inputs x; unknown: z"
    assert differences([], ["x"]) == "has inputs x; missing: x"
    assert differences([5, "x"], ["x"]) == "has inputs x; unknown: 5"
    assert differences(["Pixels", "k"], ["pixels", "k"]) == (
        "has inputs pixels, k; missing: pixels; unknown: Pixels (did you mean pixels?)"
    )


def test_a_line_is_bounded() -> None:
    """A model with ten thousand names would fill a terminal, and so would a client with one endless name."""
    names = [f"input_{number}" for number in range(10_000)]
    said = differences([*names, "x" * 10_000], names)
    assert len(said) < 60 * MOST + LETTERS
    assert said.count("and 9,988 more") == 1
    assert in_line(["a"] * (MOST + 1)).endswith("a, and 1 more")


def test_the_nearest_names() -> None:
    """A layer that is spelled almost rightly would not be found, or half of all layers would be listed."""
    layers = ["/stem/Conv", "/layer1/conv1/Conv", "/layer1/conv2/Conv", "/layer2/conv1/Conv", "/fc/Gemm"]
    assert nearest("/layer1/conv1/conv", layers)[0] == "/layer1/conv1/Conv"
    assert nearest("gemm", layers) == ["/fc/Gemm"]
    assert nearest("STEM/conv", layers)[0] == "/stem/Conv"
    assert nearest("quite another", layers) == nearest("", layers) == []
    assert len(nearest("conv", layers)) <= 3
