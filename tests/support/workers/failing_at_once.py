"""A worker that ends with status 9 as soon as it lives."""

import sys

import telling

telling.beat()
sys.exit(9)
