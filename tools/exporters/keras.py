"""Small networks in Keras, channels last, for tf2onnx. `NETWORKS` has the function that makes each, and the shape of its input."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

k = tf.keras.layers


def conv(x: Any, cout: int, size: int = 3, stride: int = 1, act: str | None = "relu") -> Any:
    """A convolution, batch norm and activation."""
    x = k.BatchNormalization()(k.Conv2D(cout, size, stride, "same", use_bias=False)(x))
    return k.Activation(act)(x) if act else x


def residual(shape: tuple[int, ...]) -> Any:
    """A block of ResNet, with explicit padding before the stem."""
    images = k.Input(shape)
    x = k.ZeroPadding2D(3)(images)
    x = k.ReLU()(k.BatchNormalization()(k.Conv2D(16, 7, 2)(x)))
    x = k.MaxPooling2D(3, 2, "same")(x)
    x = k.ReLU()(k.Add()([x, conv(conv(x, 16), 16, act=None)]))
    x = k.ReLU()(k.Add()([conv(x, 32, 1, 2, act=None), conv(conv(x, 32, stride=2), 32, act=None)]))
    return tf.keras.Model(images, k.Dense(10, activation="softmax")(k.GlobalAveragePooling2D()(x)))


def mobilenet(shape: tuple[int, ...]) -> Any:
    """A block of MobileNetV2, with ReLU6, and squeeze-and-excite."""
    images = k.Input(shape)
    x = conv(images, 16, 3, 2, "relu6")
    y = conv(x, 48, 1, 1, "relu6")
    y = k.Activation("relu6")(k.BatchNormalization()(k.DepthwiseConv2D(3, padding="same", use_bias=False)(y)))
    gate = k.GlobalAveragePooling2D(keepdims=True)(y)
    gate = k.Conv2D(48, 1, activation="sigmoid")(k.Conv2D(12, 1, activation="relu")(gate))
    x = k.Add()([x, conv(k.Multiply()([y, gate]), 16, 1, act=None)])
    return tf.keras.Model(images, k.Dense(10)(k.Flatten()(k.AveragePooling2D(4)(x))))


def unet(shape: tuple[int, ...]) -> Any:
    """A U-Net that goes down once, and up again by a transposed convolution."""
    images = k.Input(shape)
    first = conv(images, 8)
    y = conv(k.MaxPooling2D()(first), 16)
    y = k.Concatenate()([first, k.Conv2DTranspose(8, 2, 2, "same")(y)])
    return tf.keras.Model(images, k.Conv2D(2, 1, activation="sigmoid")(conv(y, 8)))


def espcn(shape: tuple[int, ...]) -> Any:
    """Super-resolution by depth_to_space."""
    images = k.Input(shape)
    x = k.Conv2D(9, 3, padding="same")(k.Conv2D(16, 5, padding="same", activation="tanh")(images))
    return tf.keras.Model(images, tf.keras.layers.Lambda(lambda y: tf.nn.depth_to_space(y, 3))(x))


def dense(shape: tuple[int, ...]) -> Any:
    """A block of DenseNet: concatenated maps, norms before convolutions, an upsampling at the end."""
    images = k.Input(shape)
    x = conv(images, 16, stride=2)
    for _ in range(2):
        x = k.Concatenate()([x, k.Conv2D(8, 3, padding="same")(k.ReLU()(k.BatchNormalization()(x)))])
    x = k.UpSampling2D(2)(k.AveragePooling2D(2)(k.LeakyReLU()(k.Conv2D(16, 1)(x))))
    return tf.keras.Model(images, k.Conv2D(4, 1)(x))


NETWORKS: dict[str, tuple[Callable[[tuple[int, ...]], Any], tuple[int, ...]]] = {
    "residual": (residual, (32, 32, 3)),
    "mobilenet": (mobilenet, (32, 32, 3)),
    "unet": (unet, (32, 32, 3)),
    "espcn": (espcn, (16, 16, 1)),
    "dense": (dense, (32, 32, 3)),
}
