"""Privacy accounting in numpy alone: what a mechanism spends, and how much noise a target needs."""

__all__ = ["calibration", "gdp", "mechanism", "pld", "rdp"]
