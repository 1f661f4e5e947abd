"""What a certificate looks like in other people's formats; each rendering says what it is."""

__all__ = ["cyclonedx", "opendp"]
