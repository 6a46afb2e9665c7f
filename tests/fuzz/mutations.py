"""Changes of a file's bytes, chosen by numbers that hypothesis draws."""

from collections.abc import Callable, Sequence

TOKENS = [
    *(b"\0", b"\xff", b"\n", b"\r\n", b"\t", b'"', b"\\", b"{", b"[", b"}", b"]", b",", b":", b"/", b"../"),
    *(b"${oc.env:HOME}", b"null", b"true", b"NaN", b"Infinity", b"-1", b"0", b"1e999", b"9" * 30, b"9" * 5000),
    *(b"\xef\xbb\xbf", "\u2028é日\U0001f600".encode(), b"\\ud800", b"\x80\x04\x95", b"[" * 3000, b'{"a":' * 3000),
    *(number.to_bytes(8, "little") for number in (1 << 63, 1 << 62, 0xFFFFFFFF)),
]
Mutation = tuple[int, float, int]
"""Kind of change, place as a share of the length, and a number that the kind interprets."""


def _flip(data: bytes, at: int, number: int) -> bytes:
    return data[:at] + bytes([data[at] ^ (1 << number % 8)]) + data[at + 1 :] if at < len(data) else data


def _insert(data: bytes, at: int, number: int) -> bytes:
    return data[:at] + TOKENS[number % len(TOKENS)] + data[at:]


def _replace(data: bytes, at: int, number: int) -> bytes:
    token = TOKENS[number % len(TOKENS)]
    return data[:at] + token + data[at + len(token) :]


def _truncate(data: bytes, at: int, number: int) -> bytes:
    return data[:at]


def _delete(data: bytes, at: int, number: int) -> bytes:
    return data[:at] + data[at + 1 + number % 64 :]


def _repeat(data: bytes, at: int, number: int) -> bytes:
    size = 1 + number % 200
    return data[: at + size] + data[at:]


def _value(data: bytes, at: int, number: int) -> bytes:
    """Replace the word around a place, such as a number or a name, by a token."""
    separators = b' \n\t,:{}[]()"/'
    start, end = at, at
    while start > 0 and data[start - 1] not in separators:
        start -= 1
    while end < len(data) and data[end] not in separators:
        end += 1
    return data[:start] + TOKENS[number % len(TOKENS)] + data[end:]


KINDS: Sequence[Callable[[bytes, int, int], bytes]] = (_flip, _insert, _replace, _truncate, _delete, _repeat, _value)


def mutate(data: bytes, mutations: Sequence[Mutation]) -> bytes:
    """Apply changes one after the other."""
    for kind, place, number in mutations:
        data = KINDS[kind % len(KINDS)](data, min(int(place * (len(data) + 1)), len(data)), number)
    return data
