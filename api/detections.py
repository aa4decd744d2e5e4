"""What a detector's outputs say: boxes, without duplicates, and how they match others.

from cnna.detections import best, yolo_rows
"""

from cnna.host.model.detections import (
    Detections,
    best,
    matches,
    ssd_boxes,
    ssd_priors,
    yolo_rows,
    yolov5_rows,
    yolox_rows,
)

__all__ = ["Detections", "best", "matches", "ssd_boxes", "ssd_priors", "yolo_rows", "yolov5_rows", "yolox_rows"]
