"""A witness of private training: runs the shipped command, looks on from outside, and compares."""
