"""Damage to files of prepared data."""

DAMAGE = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3]),
    "empty": lambda path: path.write_bytes(b""),
    "foreign": lambda path: path.write_bytes(b"PK\x03\x04" + bytes(range(256)) * 20),
}
