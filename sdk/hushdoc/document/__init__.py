"""Documents as plain data: pages, words and boxes, what is read at most, and how it was read."""
