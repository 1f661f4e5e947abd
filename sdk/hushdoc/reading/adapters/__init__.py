"""Readers of other programs' output, each with its own function in `hushdoc.reading`.

What is no such output, or not yet the whole of it, is an UnsupportedFormatError; a box or a word
that can't be used is an InputError that names it.
"""
