"""The server's courier, a program that Flower's Python runs."""
