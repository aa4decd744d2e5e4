"""The networks that `exporter_graphs` exports, in the packages that export them: PyTorch (two files) and Keras."""
