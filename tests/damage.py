"""Random damage to the bytes of files."""

PIECES = [
    b"\n",
    b"\r\n",
    b"\t",
    b"\0",
    b"\xff",
    b"x" * 5000,
    *b'" , NA 1e999 =cmd() 1,5 label PAR1 PK <v>-1</v> &'.split(),
]


def damaged(data, rng):
    """The bytes after a few changes, anywhere or near the end: bits, pieces put in, cut out or doubled, the end lost."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
        i = max(0, len(data) - rng.randrange(1 + rng.choice([200, len(data)])))
        j = i + rng.choice([1, 4, 64])
        match rng.randrange(6):
            case 0 | 1:
                data[i:j] = bytes(byte ^ 1 << rng.randrange(8) for byte in data[i:j])
            case 2 | 3:
                data[i:i] = rng.choice(PIECES)
            case 4:
                data[i:i] = data[i:j]
            case 5:
                del data[i : rng.choice([j, len(data)])]
    return bytes(data)
