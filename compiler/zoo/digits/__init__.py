"""Handwritten digits: the demo's trained network, its images, and how they are split. Begin with `data`.

The images in digits.csv.gz are the test part of "Optical Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak
(UCI, CC BY 4.0), in the file that scikit-learn ships. `examples/train_digits.py` has trained the network.
"""
