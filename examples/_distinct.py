"""Three ways to count how many different values there are: exactly, with a Bloom filter, with HyperLogLog.

No program, but what unique_visitors.py and live_dashboard.py count with. All three can be merged: what two of them have seen
apart, the merged one has seen. The last two keep a fixed number of bytes, however many values there are, and estimate.
"""

from hashlib import blake2b
from math import inf, log, sqrt

BITS = 64
_MASK = 2**BITS - 1


def hash_of(value):
    """64 bits that look random. Python's own hash() is another one in each process for strings, and none for numbers."""
    if not isinstance(value, int):
        value = int.from_bytes(blake2b(str(value).encode(), digest_size=BITS // 8).digest(), "big")
    # Multiplying mixes low bits into the high ones, shifting mixes these into the low ones.
    value = (value + 0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 32) * 0xD6E8FEB86659FD93 & _MASK
    return value ^ value >> 32


class ExactSet:
    """All values. Exact, and as large as there are values."""

    def __init__(self):
        self.values = set()

    def add(self, value):
        self.values.add(value)

    def merge(self, other):
        self.values |= other.values

    def count(self):
        return len(self.values)


class BloomFilter:
    """A field of bits, of which each value sets some: its hash says which. The same value sets the same bits.

    How many values there were follows from how many bits are set: of m bits, each stays unset with a probability of
    exp(-k n / m) when n values have set k each.
    """

    def __init__(self, bits=1 << 16, hashes=3):
        self.size = bits
        self.hashes = hashes
        self.field = bytearray(bits // 8)

    def add(self, value):
        # Two halves of one hash make as many as are needed (Kirsch and Mitzenmacher).
        first, step = divmod(hash_of(value), 1 << 32)
        for number in range(self.hashes):
            position = (first + number * step) % self.size
            self.field[position >> 3] |= 1 << (position & 7)

    def __contains__(self, value):
        """False only if the value was never added; true by mistake for a few others."""
        first, step = divmod(hash_of(value), 1 << 32)
        positions = ((first + number * step) % self.size for number in range(self.hashes))
        return all(self.field[position >> 3] >> (position & 7) & 1 for position in positions)

    def merge(self, other):
        both = int.from_bytes(self.field, "big") | int.from_bytes(other.field, "big")
        self.field = bytearray(both.to_bytes(len(self.field), "big"))

    def count(self):
        unset = self.size - int.from_bytes(self.field, "big").bit_count()
        return round(-self.size / self.hashes * log(max(unset, 1) / self.size))


class HyperLogLog:
    """Some thousand registers, each with the longest run of zeros that a hash of it began with (Flajolet and others).

    A run of r zeros is as rare as one in 2 ** (r + 1), so one that long tells of about as many different values.
    """

    def __init__(self, index_bits=12):
        self.index_bits = index_bits
        self.registers = bytearray(1 << index_bits)
        self.longest = BITS - index_bits + 1

    @property
    def error(self):
        """The standard error of the count, as a share of it."""
        return 1.04 / sqrt(len(self.registers))

    def add(self, value):
        registers = self.registers
        rest, index = divmod(hash_of(value), len(registers))
        rank = self.longest - rest.bit_length()
        if rank > registers[index]:
            registers[index] = rank

    def merge(self, other):
        self.registers = bytearray(map(max, self.registers, other.registers))

    def count(self):
        """Ertl's estimate, which is good for few values and for many alike."""
        registers = len(self.registers)
        mean = registers * tau(1 - self.registers.count(self.longest) / registers)
        for rank in range(self.longest - 1, 0, -1):
            mean = (mean + self.registers.count(rank)) / 2
        mean += registers * sigma(self.registers.count(0) / registers)
        return round(registers**2 / (2 * log(2) * mean))


def sigma(empty):
    """What the share of registers that are still empty adds to the mean."""
    if empty == 1:
        return inf
    total, before, factor = empty, -1.0, 1.0
    while total != before:
        empty, before = empty * empty, total
        total += empty * factor
        factor *= 2
    return total


def tau(not_full):
    """What the registers that can count no further add to the mean."""
    if not_full in (0, 1):
        return 0.0
    total, before, factor = 1 - not_full, -1.0, 1.0
    while total != before:
        not_full, before, factor = sqrt(not_full), total, factor / 2
        total -= (1 - not_full) ** 2 * factor
    return total / 3
