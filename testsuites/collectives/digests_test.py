"""Digests in Python are those of C++: compared with the definition in common/operations/digest.h, word by word."""
import unittest

import torch

from distrun.collectives import block_digests


def by_definition(data: bytes) -> list:
    data += bytes(-len(data) % 8)
    words = [int.from_bytes(data[at:at + 8], "little") for at in range(0, len(data), 8)]
    size = (len(words) + 15) // 16
    blocks = []
    for block in range(16):
        sums = [0] * 16
        for place, word in enumerate(words[block * size:(block + 1) * size]):
            sums[place % 16] += word
        h = 0
        for each in sums:
            h = (h ^ each % 2**64) * 0x9E3779B97F4A7C15 % 2**64
        blocks.append(h >> 32)
    return blocks


class DigestsTest(unittest.TestCase):
    def test_every_size_and_dtype(self):
        for dtype in (torch.uint8, torch.int16, torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.bool):
            for size in (0, 1, 2, 3, 7, 8, 9, 16, 17, 127, 1000, 4099):
                tensor = torch.arange(size).remainder(2 if dtype == torch.bool else 251).to(dtype)
                data = bytes(tensor.view(-1).view(torch.uint8).tolist())
                self.assertEqual(block_digests([tensor]), by_definition(data), (dtype, size))

    def test_views_and_strides(self):
        base = torch.arange(4000, dtype=torch.float32)
        for tensor in (base[1:], base[3:1000], base.view(40, 100).t(), base[::3]):
            self.assertEqual(block_digests([tensor]), block_digests([tensor.clone()]))

    def test_several_tensors(self):
        one, two = torch.arange(10.0), torch.arange(20.0)
        folded = [(a * 31 + b) % 2**32 for a, b in zip(block_digests([one]), block_digests([two]))]
        self.assertEqual(block_digests([one, two]), folded)


unittest.main()
