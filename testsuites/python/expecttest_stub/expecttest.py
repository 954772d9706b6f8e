"""Stands for the package expecttest, which PyTorch's test classes import and these tests do not use."""
import unittest

TestCase = unittest.TestCase
