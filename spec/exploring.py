"""What an exploration may be asked for, by the names of its options: objectives, axes, what is swept, and samplers.

`compiler/explore` says what each name means; the command line, which must start without the compiler, lists them.
"""

SPEEDS = ("fps", "alone", "latency")  # to the answer; of the accelerator alone; time to the answer
SIZES = ("dsp", "bram", "uram", "lut", "clock", "port")  # of a configuration: less is better, and nothing need be compiled for it
FIGURES = ("ddr", "energy", "bandwidth")  # of a prediction: less is better
COSTS = (*SIZES, *FIGURES)
OBJECTIVES = (*SPEEDS, *COSTS)
AXES = ("dsp", "bram")  # unless others are given
SWEPT = ("ports", "regions", "ring", "vector", "banks")
SAMPLERS = ("tpe", "nsga2", "random")  # of Optuna; the first is the usual one
