"""Traces of requests, by OpenTelemetry (extra `trace`): what the engine noted becomes spans, and goes to a collector.

The command line imports it where traces are asked for, and the fronts are given what it makes. Begin with `tracing`.
"""
