"""What others have published of their hardware, to be shown beside what is measured here; docs/performance.md says where from."""

# Frames a second of the DPU of Vitis AI on a ZCU102: three B4096 cores at 281 MHz, many threads, measured from picture to answer.
DPU = {
    "resnet50": 190.30,
    "vgg19": 38.87,
    "squeezenet": 1550.79,
    "inception_v1": 503.71,
    "inception_v2": 247.54,
    "mobilenet_v1": 1038.05,
    "mobilenet_v2": 764.41,
    "yolov3": 37.82,
}
